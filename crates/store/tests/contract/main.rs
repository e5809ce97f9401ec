//! One suite that every backend must pass: what the port promises, one promise a test, and random
//! histories compared with the in-memory store.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod blobs;
mod conversations;
mod endings;
mod filters;
mod hints;
mod keeping;
mod model;
mod promises;
mod reads;
mod sweeps;
mod viewers;
mod world;

/// Runs every promise against one backend.
macro_rules! backend {
    ($backend:ident, $world:expr) => {
        mod $backend {
            use crate::{
                blobs, conversations, endings, filters, hints, keeping, promises, reads, sweeps, viewers,
            };
            use crate::world::World;

            backend!(@tests $world; keeping;
                a_definition_is_stored_while_a_task_names_it,
                what_a_worker_cannot_run_it_does_not_claim,
                a_task_that_is_taken_out_and_brought_in_is_the_same,
                a_task_that_is_there_already_is_not_brought_in,
                a_task_brought_in_goes_on_where_it_stood,
                an_imported_definition_is_trusted_after_trust,
                a_trusted_definition_takes_the_place_of_one_that_is_not,
                a_task_of_an_untrusted_definition_does_not_make_it_trusted,
                a_long_state_is_read_back_at_every_point,
            );

            backend!(@tests $world; blobs;
                a_blob_is_read_back_whole_and_by_range,
                a_blob_is_seen_only_through_a_task_that_names_it,
                a_message_names_the_blobs_of_its_owner_and_of_nobody_else,
                a_blob_goes_with_the_last_task_that_names_it,
                a_task_moves_with_its_blobs,
                a_blob_that_is_too_large_is_refused_by_name,
            );

            backend!(@tests $world; endings;
                a_task_that_ends_calls_off_its_children,
                a_child_of_an_ended_task_is_called_off_from_the_start,
                a_task_that_cannot_be_read_is_set_aside_and_the_others_go_on,
                an_ended_task_is_never_ready_again,
            );

            backend!(@tests $world; filters;
                every_part_of_a_filter_leaves_out_what_does_not_fit,
            );

            backend!(@tests $world; hints;
                a_task_that_is_put_down_is_work,
                the_end_of_a_task_is_work_for_the_next_of_its_conversation,
                whoever_watches_is_told_though_another_has_gone,
            );

            backend!(@tests $world; conversations;
                a_conversations_update_time_is_that_of_its_last_message,
                one_conversation_is_worked_on_in_order_one_at_a_time,
                an_answered_task_waits_while_a_later_one_is_at_work,
                an_answered_task_comes_before_later_ones_that_have_not_started,
                a_task_whose_worker_died_goes_on_before_an_answered_one,
                a_foreign_conversation_is_refused,
                a_conversation_belongs_to_one_app,
                a_conversation_holds_what_was_spoken_before_a_task,
                a_key_belongs_to_one_app,
                conversations_are_listed_in_pages,
                a_task_is_refused_while_its_conversation_is_busy_if_it_asks_for_that,
                a_conversation_is_deleted_once_all_its_tasks_have_ended,
                the_same_key_with_another_request_is_refused,
            );

            backend!(@tests $world; sweeps;
                a_sweep_never_touches_live_tasks,
                a_sweep_keeps_children_of_live_parents,
                a_sweep_touches_no_task_of_another_app,
                a_sweep_goes_through_more_than_one_group,
                a_dry_sweep_removes_nothing,
            );

            backend!(@tests $world; viewers;
                a_task_of_another_user_or_app_is_missing_for_every_read,
                a_task_of_another_user_or_app_takes_no_signal,
                a_conversation_of_another_user_or_app_is_missing,
                lists_and_counts_hold_what_the_viewer_sees,
                an_operator_sees_all_of_one_app_and_nothing_of_another,
            );

            backend!(@tests $world; reads;
                entries_and_events_are_read_by_range,
                signals_are_read_without_the_journal,
                a_list_carries_no_payload,
                counting_stops_at_its_bound,
                a_cursor_stays_right_while_tasks_come,
                a_page_of_any_size_can_be_read,
                a_claim_carries_the_time_of_the_store,
                a_dropped_call_takes_effect_all_the_same,
                nothing_is_appended_over_a_gap,
                a_lapsed_lease_that_nobody_claimed_is_prolonged,
                a_task_is_not_claimed_before_its_time,
                a_claim_says_when_the_next_task_is_ready,
                a_task_that_is_not_due_keeps_nobody_waiting,
            );

            backend!(@tests $world; promises;
                a_submitted_task_is_found_with_its_first_entry,
                the_same_key_of_the_same_owner_is_the_same_task,
                the_same_key_of_another_owner_is_another_task,
                a_taken_id_is_refused,
                a_task_can_be_held_from_the_start,
                a_task_that_has_to_wait_its_turn_is_not_held_from_the_start,
                an_append_without_a_status_change_keeps_the_row,
                sequences_are_contiguous_from_one,
                a_task_is_claimed_by_one_worker_only,
                an_expired_lease_can_be_claimed_and_fences_the_old_worker,
                a_wrong_sequence_is_fenced_and_changes_nothing,
                a_delivery_after_completion_is_fenced,
                a_renewed_lease_holds_and_a_lost_one_does_not,
                a_signal_before_the_wait_is_not_lost,
                a_signal_wakes_a_waiting_task,
                a_signal_is_taken_once_under_its_key,
                signals_to_ended_and_to_missing_tasks_are_distinguished,
                a_waiting_task_wakes_at_its_time,
                only_known_apps_are_claimed,
                claims_without_progress_are_counted,
                queries_filter_and_page_newest_first,
                a_watcher_is_told_of_work_and_of_its_task,
                many_writers_at_once_lose_nothing,
            );
        }
    };
    (@tests $world:expr; $module:ident; $($name:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                let world: World = $world;
                $module::$name(&world).await;
            }
        )*
    };
}

backend!(memory, World::memory());
backend!(sqlite, World::sqlite());
