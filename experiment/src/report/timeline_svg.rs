//! The lanes of a trial as a picture. Colours come from the page's style sheet; alone the file brings its own.

use super::page::{escaped, text};
use super::timeline::{Lane, State, StateSpan, Timeline};

/// The picture, as a whole SVG document that also fits into a page.
pub(super) fn draw(timeline: &Timeline) -> String {
    let height = TOP + timeline.lanes.len() as f64 * LANE + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         class=\"timeline\"><title>{}</title><style>{STYLE}</style>{PATTERNS}",
        escaped(&timeline.title)
    );
    let bottom = height - BOTTOM;
    for (index, lane) in timeline.lanes.iter().enumerate() {
        draw_lane(&mut svg, timeline, lane, TOP + index as f64 * LANE);
    }
    // Over the lanes, so that nobody can miss it.
    for (from_ns, to_ns) in &timeline.overlaps {
        let (x, width) = extent(timeline, *from_ns, *to_ns);
        let ms = (to_ns - from_ns) / 1_000_000;
        svg.push_str(&format!(
            "<rect class=\"overlap\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\">\
             <title>two holders for {ms} ms</title></rect>",
            bottom - TOP
        ));
    }
    if let Some(fault_ns) = timeline.fault_ns {
        let (x, _) = extent(timeline, fault_ns, fault_ns);
        svg.push_str(&format!(
            "<line class=\"fault\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>{}",
            TOP - 4.0,
            text(x, TOP - 8.0, "middle", "fault")
        ));
    }
    draw_axis(&mut svg, timeline, bottom);
    svg.push_str("</svg>");
    svg
}

fn draw_lane(svg: &mut String, timeline: &Timeline, lane: &Lane, y: f64) {
    svg.push_str(&format!(
        "{}<rect class=\"lane\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
        text(LEFT - 8.0, y + 15.0, "end", escaped(&lane.name)),
        y + 3.0,
        WIDTH - LEFT - RIGHT
    ));
    for span in &lane.spans {
        let (x, width) = extent(timeline, span.from_ns, span.to_ns);
        let (class, words) = class(span);
        let (from, to) = (since(timeline, span.from_ns), since(timeline, span.to_ns));
        svg.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BAR}\">\
             <title>{}: {words}, {from} to {to} ms</title></rect>",
            y + 3.0,
            escaped(&lane.name)
        ));
    }
}

fn draw_axis(svg: &mut String, timeline: &Timeline, y: f64) {
    let length_ms = since(timeline, timeline.until_ns).max(1);
    let step_ms = [50, 100, 200, 500, 1000, 2000, 5000]
        .into_iter()
        .find(|step| length_ms / step <= 10)
        .unwrap_or(10_000);
    for tick_ms in (0..=length_ms).step_by(usize::try_from(step_ms).unwrap_or(1)) {
        let at_ns = timeline.from_ns + tick_ms * 1_000_000;
        let (x, _) = extent(timeline, at_ns, at_ns);
        svg.push_str(&format!(
            "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y:.1}\" y2=\"{:.1}\"/>{}",
            y + 4.0,
            text(x, y + 17.0, "middle", tick_ms)
        ));
    }
    svg.push_str(&text(LEFT - 8.0, y + 17.0, "end", "ms"));
}

fn class(span: &StateSpan) -> (&'static str, &'static str) {
    match span.state {
        State::HeldByA => ("a", "held by A"),
        State::HeldByB => ("b", "held by B"),
        State::Down => ("down", "down"),
        State::Waiting => ("waiting", "in its restart delay"),
        State::Paused => ("paused", "stands still"),
    }
}

fn since(timeline: &Timeline, at_ns: u64) -> u64 {
    at_ns.saturating_sub(timeline.from_ns) / 1_000_000
}

fn extent(timeline: &Timeline, from_ns: u64, to_ns: u64) -> (f64, f64) {
    let length = timeline.until_ns.saturating_sub(timeline.from_ns).max(1) as f64;
    let x = |at_ns: u64| {
        let at_ns = at_ns.clamp(timeline.from_ns, timeline.until_ns);
        let share = at_ns.saturating_sub(timeline.from_ns) as f64 / length;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    // What lasted for less than a dot is still to be seen.
    (x(from_ns), (x(to_ns) - x(from_ns)).max(1.5))
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 24.0;
const LANE: f64 = 24.0;
const BAR: f64 = 17.0;
const BOTTOM: f64 = 26.0;

const STYLE: &str = "\
.timeline{font:12px system-ui,sans-serif;fill:#444}\
.timeline .lane{fill:#eceff1}.timeline .a{fill:#0072b2}.timeline .b{fill:#e69f00}\
.timeline .down{fill:#222}.timeline .waiting{fill:url(#waiting)}.timeline .paused{fill:url(#paused)}\
.timeline .overlap{fill:#d55e00;fill-opacity:.22;stroke:#d55e00;stroke-width:2}\
.timeline .fault{stroke:#d55e00;stroke-width:1.5;stroke-dasharray:4 3}.timeline .tick{stroke:#999}\
@media(prefers-color-scheme:dark){.timeline{fill:#c8ccd0}.timeline .lane{fill:#2a2f34}\
.timeline .down{fill:#000;stroke:#888}.timeline .a{fill:#3a9bd9}}";

const PATTERNS: &str = "<defs>\
<pattern id=\"waiting\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"6\" height=\"6\" fill=\"#b9c2c9\"/><rect width=\"2.5\" height=\"6\" fill=\"#6b7880\"/></pattern>\
<pattern id=\"paused\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
<rect width=\"5\" height=\"5\" fill=\"#fff\" fill-opacity=\".5\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1.2\" fill=\"#444\"/>\
</pattern></defs>";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::timeline::tests::amnesia;

    fn attribute(tag: &str, name: &str) -> f64 {
        let (_, rest) = tag.split_once(&format!(" {name}=\"")).expect(name);
        rest.split('"')
            .next()
            .and_then(|it| it.parse().ok())
            .expect(name)
    }

    #[test]
    fn the_red_band_lies_where_both_holds_overlap() {
        let (trial, records) = amnesia();
        let svg = draw(&Timeline::of(&trial, &records));
        let tags = |class: &str| -> Vec<&str> {
            let start = format!("<rect class=\"{class}\"");
            svg.split('<')
                .filter_map(|tag| tag.strip_prefix(&start[1..]))
                .collect()
        };
        let band = tags("overlap");
        let b = tags("b");
        let a = tags("a");
        assert_eq!((band.len(), b.len(), a.len()), (1, 4, 4));
        let right = |tag: &str| attribute(tag, "x") + attribute(tag, "width");
        assert!((attribute(band[0], "x") - attribute(b[0], "x")).abs() < 0.2);
        assert!((right(band[0]) - right(a[0])).abs() < 0.2);
        assert_eq!(tags("down").len(), 1);
    }
}
