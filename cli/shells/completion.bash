# Completion of oxide-ctl for bash, printed by `oxide-ctl completion bash`. Rows: command|word|what it takes|what it is.
_oxide_ctl_rows=@ROWS@

# What $2 (an option, the number of an argument, * for all others, -- for paths) takes in command $1.
_oxide_ctl_takes() {
  local name word
  takes=
  while IFS='|' read -r name word takes _; do
    [[ $name == "$1" && $word == "$2" ]] && return
  done <<<"$_oxide_ctl_rows"
  takes=
}

# Of the words of command $1 the options, or with $2 the commands.
_oxide_ctl_words() {
  local name word takes
  while IFS='|' read -r name word takes _; do
    [[ $name == "$1" ]] || continue
    if [[ $2 ]]; then
      [[ $takes == command ]] && _oxide_ctl_offer "$word"
    else
      [[ $word == -?* && $word != -- ]] && _oxide_ctl_offer "$word"
    fi
  done <<<"$_oxide_ctl_rows"
}

_oxide_ctl_offer() {
  local word
  for word in "$@"; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done
}

# What can stand for $1.
_oxide_ctl_values() {
  local word
  case $1 in
    =*) _oxide_ctl_offer ${1#=} ;;
    checkpoint)
      while IFS=$'\t' read -r word _; do
        _oxide_ctl_offer "$(printf %q "$word")"
      done < <(command oxide-ctl -C "$folder" completion --checkpoints 2>/dev/null)
      ;;
    path | directory)
      compopt -o filenames 2>/dev/null
      local kind=-f
      [[ $1 == directory ]] && kind=-d
      while IFS= read -r word; do
        COMPREPLY+=("$word")
      done < <(CDPATH= cd -- "$folder" 2>/dev/null && compgen "$kind" -- "$current")
      ;;
  esac
}

_oxide_ctl() {
  # bash breaks words at = : and @ too; here they end at blanks
  local rest=${COMP_LINE:0:COMP_POINT} words=() last=-1 word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $rest == [[:blank:]]* ]]; then
      rest=${rest#"${rest%%[![:blank:]]*}"}
      words[++last]=
    fi
    [[ $rest == "$word"* ]] || word=$rest
    words[last]+=$word
    rest=${rest#"$word"}
  done

  local name= takes= waiting= paths= folder=. count=0 current=${words[last]} before=
  for ((i = 1; i < last; i++)); do
    word=${words[i]}
    if [[ $waiting ]]; then
      [[ $waiting == -C ]] && folder=${word/#\~/$HOME}
      waiting=
    elif [[ $paths ]]; then
      ((count++))
    elif [[ $word == -- ]]; then
      paths=1
    elif [[ $word == -* ]]; then
      _oxide_ctl_takes "$name" "$word"
      [[ $takes && $takes != flag ]] && waiting=$word
    else
      _oxide_ctl_takes "$name" "$word"
      if [[ $takes == command ]]; then name=${name:+$name }$word; else ((count++)); fi
    fi
  done

  COMPREPLY=()
  if [[ $waiting ]]; then
    _oxide_ctl_takes "$name" "$waiting"
    _oxide_ctl_values "$takes"
  elif [[ ! $paths && $current == --*=* ]]; then
    before=${current%%=*}=
    _oxide_ctl_takes "$name" "${before%=}"
    current=${current#*=}
    _oxide_ctl_values "$takes"
    COMPREPLY=("${COMPREPLY[@]/#/$before}")
    current=$before$current
  elif [[ ! $paths && $current == -* ]]; then
    _oxide_ctl_words "$name"
  else
    takes=
    [[ $paths ]] && _oxide_ctl_takes "$name" --
    [[ $takes ]] || _oxide_ctl_takes "$name" $((count + 1))
    [[ $takes ]] || _oxide_ctl_takes "$name" '*'
    ((count)) || _oxide_ctl_words "$name" commands
    _oxide_ctl_values "$takes"
    [[ $takes || $current || $paths || ${#COMPREPLY[@]} -gt 0 ]] || _oxide_ctl_words "$name"
  fi

  # what stands before the last character that bash breaks at stays on the line
  local breaks=${COMP_WORDBREAKS//[^=:@]/}
  if [[ $breaks && $current == *["$breaks"]* ]]; then
    word=${current##*["$breaks"]}
    COMPREPLY=("${COMPREPLY[@]#"${current%"$word"}"}")
  fi
}

complete -o nosort -F _oxide_ctl oxide-ctl 2>/dev/null || complete -F _oxide_ctl oxide-ctl
