#compdef oxide-ctl
# Completion of oxide-ctl for zsh, printed by `oxide-ctl completion zsh`. Rows: command|word|what it takes|what it is.
_oxide_ctl_rows=@ROWS@

# What $2 (an option, the number of an argument, * for all others, -- for paths) takes in command $1.
_oxide_ctl_takes() {
  local row=${${(M)${(f)_oxide_ctl_rows}:#$1\|$2\|*}[1]}
  takes=${${row#*\|*\|}%%\|*}
}

# Of the words of command $1 the options, or with $2 the commands, each with what it is.
_oxide_ctl_words() {
  local row word kind
  local -a names shown
  for row in ${(M)${(f)_oxide_ctl_rows}:#$1\|*}; do
    row=${row#*\|} word=${row%%\|*} kind=${${row#*\|}%%\|*}
    if [[ -n $2 && $kind == command ]] || [[ -z $2 && $word == -?* && $word != -- ]]; then
      names+=("$word") shown+=("${(r:18:)word} ${row#*\|*\|}")
    fi
  done
  compadd -l -d shown -a names
}

# What can stand for $1.
_oxide_ctl_values() {
  local line
  local -a names shown
  case $1 in
    '='*) names=(${=1#=}) && compadd -a names ;;
    checkpoint)
      for line in ${(f)"$(command oxide-ctl -C "$folder" completion --checkpoints 2>/dev/null)"}; do
        names+=("${line%%$'\t'*}") shown+=("${line/$'\t'/  }")
      done
      compadd -V checkpoints -l -d shown -a names
      ;;
    path) _files -W "${folder:a}" ;;
    directory) _files -/ -W "${folder:a}" ;;
  esac
}

_oxide_ctl() {
  local name= takes= waiting= paths= folder=. word i
  local -i count=0
  for ((i = 2; i < CURRENT; i++)); do
    word=${(Q)words[i]}
    if [[ -n $waiting ]]; then
      [[ $waiting == -C ]] && folder=${word/#\~/$HOME}
      waiting=
    elif [[ -n $paths ]]; then
      ((++count))
    elif [[ $word == -- ]]; then
      paths=1
    elif [[ $word == -* ]]; then
      _oxide_ctl_takes "$name" "$word"
      [[ -n $takes && $takes != flag ]] && waiting=$word
    else
      _oxide_ctl_takes "$name" "$word"
      if [[ $takes == command ]]; then name=${name:+$name }$word; else ((++count)); fi
    fi
  done

  takes=
  if [[ -n $waiting ]]; then
    _oxide_ctl_takes "$name" "$waiting"
    _oxide_ctl_values "$takes"
  elif [[ -z $paths ]] && compset -P '--*='; then
    _oxide_ctl_takes "$name" "${IPREFIX%=}"
    _oxide_ctl_values "$takes"
  elif [[ -z $paths && $PREFIX == -* ]]; then
    _oxide_ctl_words "$name"
  else
    [[ -n $paths ]] && _oxide_ctl_takes "$name" --
    [[ -n $takes ]] || _oxide_ctl_takes "$name" $((count + 1))
    [[ -n $takes ]] || _oxide_ctl_takes "$name" '*'
    ((count)) || _oxide_ctl_words "$name" command
    _oxide_ctl_values "$takes"
    [[ -n $takes || -n $PREFIX || -n $paths ]] || ((compstate[nmatches])) || _oxide_ctl_words "$name"
  fi
}

if [[ $funcstack[1] == _oxide_ctl ]]; then
  _oxide_ctl "$@"
else
  compdef _oxide_ctl oxide-ctl
fi
