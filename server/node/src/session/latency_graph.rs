//! The picture that LATENCY GRAPH draws, character by character that of Redis.

use quorlock_engine::RawTime;

use crate::core::latency::Series;

/// The samples of an event as columns of characters, with their ages below them.
pub(super) fn graph(name: &str, series: &Series, now_raw: RawTime) -> String {
    let times_ms: Vec<u64> = series.samples().map(|it| it.took_ms).collect();
    let ages = series.samples();
    let ages: Vec<String> = ages.map(|it| age(it.age_s(now_raw))).collect();
    let low_ms = times_ms.iter().copied().min().unwrap_or_default();
    let high_ms = times_ms.iter().copied().max().unwrap_or_default();
    let heights: Vec<usize> = times_ms
        .iter()
        .map(|took_ms| height(took_ms - low_ms, high_ms - low_ms))
        .collect();
    let mut picture = format!(
        "{name} - high {high_ms} ms, low {low_ms} ms (all time high {} ms)\n{}\n",
        series.max_ms,
        "-".repeat(COLUMNS)
    );
    for (number, (heights, ages)) in heights
        .chunks(COLUMNS)
        .zip(ages.chunks(COLUMNS))
        .enumerate()
    {
        if number > 0 {
            picture.push('\n');
        }
        add_block(&mut picture, heights, ages);
    }
    picture
}

/// At most as many columns as a line has.
fn add_block(picture: &mut String, heights: &[usize], ages: &[String]) {
    for row in (0..ROWS).rev() {
        let below = row * FILL.len();
        picture.extend(
            heights
                .iter()
                .map(|height| match height.checked_sub(below) {
                    None => ' ',
                    Some(above) => FILL.get(above).copied().unwrap_or('|'),
                }),
        );
        picture.push('\n');
    }
    picture.push_str(&" ".repeat(heights.len()));
    picture.push('\n');
    let longest = ages.iter().map(String::len).max().unwrap_or_default();
    for place in 0..longest {
        let letter = |age: &String| {
            age.as_bytes()
                .get(place)
                .map_or(' ', |byte| char::from(*byte))
        };
        picture.extend(ages.iter().map(letter));
        picture.push('\n');
    }
}

/// From 0 for the lowest to one less than there are steps for the highest.
fn height(above_ms: u64, range_ms: u64) -> usize {
    let steps = (ROWS * FILL.len()) as u128;
    let step = u128::from(above_ms) * steps / u128::from(range_ms.max(1));
    usize::try_from(step.min(steps - 1)).expect("it is below the steps")
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

const COLUMNS: usize = 80;
const ROWS: usize = 4;
const FILL: [char; 3] = ['_', 'o', '#'];
