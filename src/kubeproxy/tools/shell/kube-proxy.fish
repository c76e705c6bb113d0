# Completion of kube-proxy's command lines for fish: the program says what may follow.

function __kube_proxy_answers
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l word (commandline --current-token --cut-at-cursor)
    set -l answers ($words[1] complete -- $words[2..-1] "$word" 2>/dev/null)
    if test "$answers[1]" = :files
        set -l path (string replace --regex '^--?[^=]*=' '' -- $word)
        set -l head (string replace -- "$path" '' "$word")
        string replace --regex -- '^' "$head" (__fish_complete_path "$path")
        return
    end
    string join \n -- $answers
end

complete --command kube-proxy --no-files --arguments '(__kube_proxy_answers)'
