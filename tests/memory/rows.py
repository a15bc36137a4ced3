"""The 45 public failures of other memories (M1 to M45), and which test answers each: the one place that says so.

A test is named by its file below ``tests`` and its function. ``EXCEPTIONS`` are the rows that nothing answers, or only by
half, with the reason: at most five. ``TO_COME`` are rows, or halves of rows, that are being built;
``tests/memory/test_rows.py`` fails as soon as ``DAEMON`` has a test for one, which then belongs to ``ANSWERED``.
"""

from __future__ import annotations

from collections.abc import Mapping

LIBRARY, DAEMON = "memory/test_failure_rows.py", "daemon/test_memory_rows.py"
WRITES, PROCESSES = "memory/test_writing.py", "memory/test_concurrency.py"
COMMANDS, KEPT = "cli/test_end_to_end_memory.py", "daemon/test_remembering.py"
GIVEN, MOVED = "daemon/test_briefing.py", "daemon/test_moving.py"

ANSWERED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "M1": (
        (LIBRARY, "test_a_line_too_many_is_an_error_that_names_it"),
        (DAEMON, "test_m1_status_says_when_an_index_is_nearly_full_and_when_it_is_over"),
        (DAEMON, "test_m1_an_index_that_cannot_be_read_keeps_nobody_from_the_status_or_from_a_session"),
        (COMMANDS, "test_an_index_over_its_limit_is_an_error_of_lint_and_a_line_of_the_log"),
    ),
    "M2": (
        (LIBRARY, "test_what_the_shell_wrote_is_told_at_the_next_look"),
        (DAEMON, "test_m2_the_log_tells_of_what_a_shell_appended_before_anything_is_sealed"),
        (DAEMON, "test_m2_an_index_that_is_over_when_the_daemon_starts_is_told_of"),
        (DAEMON, "test_m2_an_index_that_a_shell_wrote_over_its_limit_is_told_of_at_once"),
    ),
    "M3": ((LIBRARY, "test_what_was_added_last_is_loaded"),),
    "M4": (
        (LIBRARY, "test_a_cut_copy_is_told_and_the_whole_text_is_kept"),
        (DAEMON, "test_m4_a_truncated_rewrite_and_the_text_before_are_both_kept"),
        (KEPT, "test_a_truncated_copy_of_the_index_is_brought_back_byte_for_byte"),
    ),
    "M6": ((LIBRARY, "test_worktrees_share_a_memory_or_not"),),
    "M7": ((LIBRARY, "test_a_memory_outlives_its_worktree_and_is_offered"),),
    "M8": ((LIBRARY, "test_a_fact_of_a_branch_stays_there_until_it_is_promoted"),),
    "M9": ((LIBRARY, "test_a_memory_outlives_its_worktree_and_is_offered"),),
    "M10": (
        (LIBRARY, "test_a_memory_is_found_by_the_id_and_by_nothing_else"),
        (DAEMON, "test_m10_a_project_that_was_moved_keeps_its_memory"),
        (COMMANDS, "test_a_project_that_is_moved_keeps_its_memory"),
    ),
    "M11": (
        (DAEMON, "test_m11_a_copy_is_another_project_and_writes_nothing_to_the_first"),
        (MOVED, "test_which_history_a_copy_has_is_asked"),
    ),
    "M12": ((LIBRARY, "test_a_move_takes_no_sibling_along"),),
    "M13": (
        (LIBRARY, "test_where_everything_is_started_there_is_no_memory"),
        (KEPT, "test_a_home_directory_has_no_memory"),
    ),
    "M14": ((LIBRARY, "test_a_memory_is_found_by_the_id_and_by_nothing_else"),),
    "M15": ((DAEMON, "test_m15_a_note_is_filed_where_it_was_written_whatever_the_session_began_with"),),
    "M16": (
        (LIBRARY, "test_an_unknown_project_is_refused_and_nothing_is_written"),
        (DAEMON, "test_m16_no_other_project_is_taken_for_one_that_is_not_known"),
    ),
    "M18": ((LIBRARY, "test_a_rule_of_one_project_is_not_given_to_another"),),
    "M19": (
        (LIBRARY, "test_a_stale_writer_loses_neither_text"),
        (DAEMON, "test_m19_of_two_writers_the_later_one_is_refused_and_both_texts_are_kept"),
    ),
    "M20": ((LIBRARY, "test_a_slow_consolidation_holds_no_lock_and_is_refused_in_the_end"),),
    "M21": (
        (LIBRARY, "test_eight_processes_lose_no_entry"),
        (PROCESSES, "test_eight_processes_append_sixteen_hundred_entries"),
    ),
    "M22": ((LIBRARY, "test_two_sessions_that_stop_at_once_are_both_kept"),),
    "M23": (
        (LIBRARY, "test_twenty_three_deleted_topics_come_back"),
        (DAEMON, "test_m23_files_that_somebody_deletes_come_back_and_are_told_of"),
    ),
    "M24": ((DAEMON, "test_m24_a_line_is_traced_to_the_prompt_that_wrote_it"),),
    "M26": ((LIBRARY, "test_a_note_about_a_file_that_is_gone_is_marked"),),
    "M27": ((LIBRARY, "test_the_same_note_twice_is_one_and_two_like_it_are_two"),),
    "M28": (
        (LIBRARY, "test_a_secret_that_somebody_wrote_is_told_hidden_and_left"),
        (COMMANDS, "test_a_secret_is_refused_and_told_of"),
    ),
    "M29": ((LIBRARY, "test_poison_is_told_and_stays_between_the_marks"),),
    "M30": ((LIBRARY, "test_an_index_of_a_megabyte_loads"),),
    "M31": ((LIBRARY, "test_a_note_too_many_is_written_with_advice"),),
    "M32": (
        (LIBRARY, "test_what_an_editor_renamed_is_there_at_once"),
        (COMMANDS, "test_a_plain_editor_is_seen_without_a_command"),
    ),
    "M33": (
        (LIBRARY, "test_what_an_editor_renamed_is_there_at_once"),
        (KEPT, "test_a_search_finds_what_was_written_a_moment_ago"),
    ),
    "M34": (
        (DAEMON, "test_m34_what_was_written_while_nobody_watched_is_found_by_a_scan"),
        (DAEMON, "test_m34_what_no_event_tells_is_found_by_the_pass_that_comes_by_itself"),
    ),
    "M35": ((DAEMON, "test_m35_every_way_in_means_the_same_memory"),),
    "M36": (
        (LIBRARY, "test_nothing_is_written_into_the_tree"),
        (DAEMON, "test_m36_nothing_is_written_into_the_tree"),
    ),
    "M37": ((LIBRARY, "test_a_setting_that_the_client_ignores_is_not_believed"),),
    "M38": ((LIBRARY, "test_forty_attacks_on_names_are_refused"),),
    "M39": (
        (LIBRARY, "test_a_memory_is_found_by_the_id_and_by_nothing_else"),
        (DAEMON, "test_m39_a_plain_folder_has_its_memory_in_the_home"),
    ),
    "M41": ((LIBRARY, "test_the_room_knows_no_network_and_starts_no_program"),),
    "M42": (
        (LIBRARY, "test_what_is_shown_is_what_is_given"),
        (DAEMON, "test_m42_what_memory_context_shows_is_what_the_agent_is_given"),
        (COMMANDS, "test_a_session_starts_with_the_notes"),
    ),
    "M44": ((DAEMON, "test_m44_a_rewind_takes_the_notes_of_work_that_is_undone_and_keeps_the_users"),),
    "M45": ((LIBRARY, "test_the_place_of_the_memory_is_said"),),
}

EXCEPTIONS: Mapping[str, str] = {
    "M5": "nothing is installed into agents' settings yet: docs/memory.md has the lines to copy",
    "M17": "a session has no scratch of its own yet: that needs sessions that are kept",
    "M37": "by half: what Claude Code will use is judged, and `memory context` says it; doctor does not look at it yet",
    "M40": "the directory that an agent keeps by itself is not imported yet",
    "M43": "what an agent claimed to have noted is in its session's text, which is not kept yet",
}

TO_COME: Mapping[str, str] = {
    "M6": "worktrees of a daemon that have a memory of their own",
    "M7": "what a worktree leaves is listed by the daemon",
    "M8": "a staged note and its promotion by the daemon",
    "M9": "`git worktree remove` with a memory of its own",
    "M25": "whether a note is unverified, verified or disputed",
    "M29": "what was read before a note was written, and the review",
}
