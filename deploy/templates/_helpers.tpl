{{/*
The objects of this chart are those of the kustomize folders beside it, so that both install the
same. Templates read them, and set values in them.
*/}}

{{/* The folder that has the privileges: a trial has those of every mode. */}}
{{- define "kubeproxy.folder" -}}
{{ ternary "ipvs" .Values.mode .Values.trial }}
{{- end }}

{{- define "kubeproxy.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ required "image.tag: want the tag of the image, or image.digest" .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The config file. Fields of `config` win, but for the mode, which decides about privileges. */}}
{{- define "kubeproxy.config" -}}
{{- $config := .Files.Get "config.conf" | replace "CLUSTER_CIDR" .Values.clusterCIDR | fromYaml -}}
{{- /* The kubelet gives this score to pods of this priority: a lower one needs a capability. */ -}}
{{- $_ := set $config "oomScoreAdj" -997 -}}
{{- if .Values.monitoring.enabled -}}
{{- $_ := set $config "metricsBindAddress" "0.0.0.0:10249" -}}
{{- end -}}
{{- $config = mergeOverwrite $config (deepCopy .Values.config) -}}
{{- $_ := set $config "mode" .Values.mode -}}
{{ toYaml $config }}
{{- end }}

{{/*
Carries out the patches of a kustomize folder, and of those that it includes, on an object. They are
operations "add" of RFC 6902, to a list or to a map.
*/}}
{{- define "kubeproxy.patch" -}}
{{- $folder := printf "%s/kustomization.yaml" .folder | .chart.Files.Get | fromYaml -}}
{{- range $folder.components -}}
{{- include "kubeproxy.patch" (dict "chart" $.chart "folder" (base .) "object" $.object) -}}
{{- end -}}
{{- range $folder.patches -}}
{{- if eq (dig "target" "kind" "" .) $.object.kind -}}
{{- range .patch | fromYamlArray -}}
{{- include "kubeproxy.add" (dict "place" $.object "steps" (splitList "/" .path | rest) "value" .value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "kubeproxy.add" -}}
{{- $place := .place -}}
{{- $key := last .steps -}}
{{- $steps := initial .steps -}}
{{- $value := .value -}}
{{- if eq $key "-" -}}
{{- $key = last $steps -}}
{{- $steps = initial $steps -}}
{{- end -}}
{{- range $steps -}}
{{- $place = index $place (ternary (atoi .) . (kindIs "slice" $place)) -}}
{{- end -}}
{{- if eq (last .steps) "-" -}}
{{- $value = append (index $place $key) $value -}}
{{- end -}}
{{- $_ := set $place $key $value -}}
{{- end }}
