# Completion of kube-proxy's command lines for bash, 4.0 or later.
#
# The program says what may follow; what bash breaks words at (= and :) is left out of the answers.

_kube_proxy() {
    local line=${COMP_LINE:0:COMP_POINT} word words answers answer
    word=${line##*[[:space:]]}
    read -ra words <<< "$line"
    [[ -n $word ]] || words+=("")
    mapfile -t answers < <("${words[0]}" complete -- "${words[@]:1}" 2> /dev/null)
    COMPREPLY=()
    if [[ ${answers[0]:-} == :files ]]; then
        local IFS=$'\n' current=${word#*=}
        compopt -o filenames 2> /dev/null
        COMPREPLY=($(compgen -f -- "$current"))
        return
    fi
    local current=${COMP_WORDS[COMP_CWORD]}
    [[ $current == [=:] ]] && current=
    local before=${word%"$current"}
    for answer in "${answers[@]}"; do
        answer=${answer%%$'\t'*}
        COMPREPLY+=("${answer#"$before"}")
    done
}

complete -F _kube_proxy kube-proxy
