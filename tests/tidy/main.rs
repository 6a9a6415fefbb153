//! The house rules, checked over the whole repository: openings, lengths, marks, letters, names,
//! arrows between packages, circles inside them, the map of folders, links.
//!
//! Each check is a function from sources to problems, with tests of its own that see it fail.
//! What the compiler, clippy and rustfmt can check is left to them.

mod arrows;
mod checks;
mod circles;
mod dependencies;
mod errors;
mod folders;
mod impls;
mod imports;
mod links;
mod promises;
mod published;
mod readings;
mod scan;
mod skipped;
mod tree;
mod world;

use tree::Source;

fn every_file(check: fn(&Source) -> Vec<String>) {
    let sources = tree::read(&tree::root());
    assert!(sources.len() > 20, "the walk found the repository");
    assert_none(sources.iter().flat_map(check).collect());
}

fn whole_tree(check: fn(&[Source]) -> Vec<String>) {
    assert_none(check(&tree::read(&tree::root())));
}

fn assert_none(problems: Vec<String>) {
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn a_package_that_can_be_published_shows_what_it_is() {
    whole_tree(published::published);
}

#[test]
fn an_error_may_get_another_variant() {
    every_file(errors::errors);
}

#[test]
fn every_source_opens_with_what_it_is() {
    every_file(checks::opening);
}

#[test]
fn files_and_functions_are_short() {
    every_file(checks::length);
}

#[test]
fn nothing_is_left_half_done() {
    every_file(checks::marks);
}

#[test]
fn a_test_that_is_skipped_is_reported_as_ignored() {
    every_file(skipped::skipped);
}

#[test]
fn sources_are_ascii() {
    every_file(checks::ascii);
}

#[test]
fn no_path_of_one_machine() {
    every_file(checks::machine_paths);
}

#[test]
fn names_say_something() {
    every_file(checks::names);
}

#[test]
fn a_node_reads_the_clock_it_was_given() {
    every_file(checks::clock_seam);
}

#[test]
fn what_decides_is_told_the_time() {
    whole_tree(readings::readings);
}

#[test]
fn the_methods_of_a_type_are_in_its_folder() {
    whole_tree(impls::impls);
}

#[test]
fn commands_write_no_line_while_the_engine_is_locked() {
    every_file(checks::session_lines);
}

#[test]
fn no_number_is_made_up() {
    every_file(checks::made_up_numbers);
}

#[test]
fn arrows_between_packages_point_one_way() {
    every_file(arrows::arrows);
}

#[test]
fn no_feature_changes_what_decides() {
    every_file(arrows::features);
}

#[test]
fn no_file_and_no_folder_uses_another_in_a_circle() {
    whole_tree(circles::circles);
}

#[test]
fn the_engine_and_the_rules_of_the_client_touch_nothing_of_the_world() {
    every_file(arrows::purity);
}

#[test]
fn the_map_names_every_crate_and_top_folder() {
    whole_tree(folders::folders);
}

#[test]
fn the_table_of_checks_names_every_folder_of_them() {
    whole_tree(folders::checks);
}

#[test]
fn the_checks_of_the_promises_exist() {
    whole_tree(promises::promises);
}

#[test]
fn links_lead_somewhere() {
    whole_tree(links::links);
}

#[test]
fn the_summary_lists_every_chapter() {
    whole_tree(links::chapters);
}
