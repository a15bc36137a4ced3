# Completion of oxide-ctl for fish, printed by `oxide-ctl completion fish`. Rows: command|word|what it takes|what it is.
set -g __oxide_ctl_rows (string split \n -- @ROWS@)

# What the second argument (an option, the number of an argument, * for all others, -- for paths) takes in a command.
function __oxide_ctl_takes
    for row in $__oxide_ctl_rows
        set -l cells (string split -m 3 '|' -- $row)
        if test "$cells[1]|$cells[2]" = "$argv[1]|$argv[2]"
            echo $cells[3]
            return
        end
    end
end

# Of the words of a command the options, or with a second argument the commands, each with what it is.
function __oxide_ctl_words
    for row in $__oxide_ctl_rows
        set -l cells (string split -m 3 '|' -- $row)
        test "$cells[1]" = "$argv[1]"; or continue
        if set -q argv[2]
            test $cells[3] = command; or continue
        else
            string match -qr '^-.' -- $cells[2]; and test $cells[2] != --; or continue
        end
        printf '%s\t%s\n' $cells[2] $cells[4]
    end
end

# What can stand for the first argument in the folder that is the second one.
function __oxide_ctl_values
    switch $argv[1]
        case '=*'
            string split ' ' -- (string sub -s 2 -- $argv[1])
        case checkpoint
            command oxide-ctl -C $argv[2] completion --checkpoints 2>/dev/null
        case path
            __oxide_ctl_in $argv[2] __fish_complete_path
        case directory
            __oxide_ctl_in $argv[2] __fish_complete_directories
    end
end

# Runs the second argument, a function of fish's, in the folder that is the first one.
function __oxide_ctl_in
    set -l current (commandline -ct | string replace -r '^--[^=]*=' '')
    set -l here $PWD
    if test $argv[1] = .
        $argv[2] $current
    else if builtin cd -- $argv[1] 2>/dev/null
        $argv[2] $current
        builtin cd -- $here
    end
end

function __oxide_ctl
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l name ''
    set -l waiting
    set -l paths
    set -l folder .
    set -l count 0
    for word in $words[2..]
        if set -q waiting[1]
            test $waiting = -C; and set folder (string replace -r '^~' $HOME -- $word)
            set waiting
        else if set -q paths[1]
            set count (math $count + 1)
        else if test "$word" = --
            set paths 1
        else
            set -l takes (__oxide_ctl_takes "$name" $word)
            if string match -q -- '-*' $word
                test -n "$takes" -a "$takes" != flag; and set waiting $word
            else if test "$takes" = command
                set name (string trim -- "$name $word")
            else
                set count (math $count + 1)
            end
        end
    end

    if set -q waiting[1]
        __oxide_ctl_values (__oxide_ctl_takes "$name" $waiting) $folder
    else if not set -q paths[1]; and set -l option (string match -r -- '^--[^=]+=' $current)
        for value in (__oxide_ctl_values (__oxide_ctl_takes "$name" (string trim -rc = -- $option)) $folder)
            echo $option$value
        end
    else if not set -q paths[1]; and string match -q -- '-*' $current
        __oxide_ctl_words "$name"
    else
        set -l takes
        set -q paths[1]; and set takes (__oxide_ctl_takes "$name" --)
        test -n "$takes"; or set takes (__oxide_ctl_takes "$name" (math $count + 1))
        test -n "$takes"; or set takes (__oxide_ctl_takes "$name" '*')
        set -l offered
        test $count = 0; and set offered (__oxide_ctl_words "$name" commands)
        test -n "$takes"; and set -a offered (__oxide_ctl_values $takes $folder)
        test -z "$takes$offered$current$paths"; and set offered (__oxide_ctl_words "$name")
        string join \n -- $offered
    end
end

complete -c oxide-ctl -f -k -a '(__oxide_ctl)'
