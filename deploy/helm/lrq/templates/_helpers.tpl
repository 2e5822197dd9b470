{{- define "lrq.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "lrq.site" -}}
{{- required "set `site` to the id of the site, such as --set site=paris" .Values.site -}}
{{- end -}}

{{- define "lrq.selector" -}}
app.kubernetes.io/name: lrq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lrq.labels" -}}
{{ include "lrq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "lrq.secret" -}}
{{- if .Values.database.existingSecret -}}
{{- .Values.database.existingSecret -}}
{{- else -}}
{{- printf "%s-database" (include "lrq.name" .) -}}
{{- end -}}
{{- end -}}

{{- define "lrq.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: LRQ_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ include "lrq.secret" . }}
        key: {{ .Values.database.key }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: settings
    mountPath: /etc/lrq
    readOnly: true
  - name: tmp
    mountPath: /tmp
{{- if .Values.tls.existingSecret }}
  - name: tls
    mountPath: /etc/lrq-tls
    readOnly: true
{{- end }}
{{- end -}}
