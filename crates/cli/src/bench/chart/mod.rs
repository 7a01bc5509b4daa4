//! Pictures of figures: curves on logarithmic axes, in SVG. `axis` places values and names them.

mod axis;

use super::capitalized;
use super::figures::{Sample, Unit};
use anyhow::{Context, Result, anyhow};
use axis::Axis;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};
use std::path::Path;

/// What runs along the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum X {
    /// Bytes of a message.
    Bytes,
    /// Ranks that take part.
    Ranks,
    /// A number of something else.
    Parameter(&'static str),
    /// Nothing: the parts of the figure stand side by side.
    Parts,
}

impl X {
    /// Where so many sizes are measured: a single one is shown over ranks.
    pub fn of_sizes(count: usize) -> Self {
        match count {
            1 => Self::Ranks,
            _ => Self::Bytes,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Bytes => "Message size (bytes)".to_owned(),
            Self::Ranks => "Processes".to_owned(),
            Self::Parameter(name) => capitalized(name),
            Self::Parts => String::new(),
        }
    }
}

/// What a picture says beside its curves.
pub struct Chart {
    /// Name of the figure.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What runs along the axis.
    pub x: X,
    /// What the values are.
    pub unit: Unit,
}

/// Colours that colour-blind readers tell apart (Okabe and Ito), and grey.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
    RGBColor(160, 120, 60),
];
/// Of a part of the figure, with its labels.
const PANEL: (i32, i32) = (460, 340);
const LEGEND_WIDTH: i32 = 250;
const HEAD: i32 = 40;
/// Left, right, top, bottom of the frame in its part.
const MARGINS: (i32, i32, i32, i32) = (74, 16, 30, 52);
const COLUMNS: usize = 2;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A part of the figure: its heading, and curves of points.
struct Panel {
    heading: String,
    curves: Vec<(usize, Vec<(f64, f64)>)>,
}

impl Chart {
    /// Draws `samples` into the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path, samples: &[Sample]) -> Result<()> {
        let mut text = String::new();
        self.draw(&mut text, samples)
            .map_err(|error| anyhow!("cannot draw {}: {error}", self.name))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn draw(&self, text: &mut String, samples: &[Sample]) -> Result<()> {
        let mut names: Vec<&str> = Vec::new();
        let mut parts: Vec<&str> = Vec::new();
        for sample in samples {
            if !names.contains(&&*sample.curve) {
                names.push(&sample.curve);
            }
            if !parts.contains(&&*sample.panel) {
                parts.push(&sample.panel);
            }
        }
        let panels = self.panels(samples, &names, &parts);
        let columns = panels.len().clamp(1, COLUMNS);
        let rows = panels.len().div_ceil(columns).max(1);
        let plots = columns as i32 * PANEL.0;
        let size = (plots + LEGEND_WIDTH, rows as i32 * PANEL.1 + HEAD);
        let area =
            SVGBackend::with_string(text, (size.0 as u32, size.1 as u32)).into_drawing_area();
        area.fill(&WHITE)?;
        let title = format!("{}: {}", self.name, self.title);
        write(
            &area,
            &title,
            (16, HEAD / 2),
            18,
            (HPos::Left, VPos::Center),
        )?;
        let values = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let curves = panels.iter().flat_map(|panel| &panel.curves);
            curves
                .flat_map(|(_, points)| points.iter().map(pick))
                .collect()
        };
        let x = match self.x {
            X::Bytes => Axis::bytes(&values(|point| point.0)),
            X::Ranks | X::Parameter(_) => Axis::of_values(&values(|point| point.0)),
            X::Parts => Axis::of_parts(&parts),
        };
        let y = Axis::logarithmic(&values(|point| point.1));
        for (index, panel) in panels.iter().enumerate() {
            let at = (
                (index % columns) as i32 * PANEL.0,
                HEAD + (index / columns) as i32 * PANEL.1,
            );
            self.draw_panel(&area, at, panel, &x, &y)?;
        }
        for (index, name) in names.iter().enumerate() {
            let y = HEAD + MARGINS.2 + 8 + index as i32 * 22;
            let line = [(plots + 4, y), (plots + 30, y)];
            area.draw(&PathElement::new(line, style(index)))?;
            area.draw(&Circle::new(
                (plots + 17, y),
                4,
                COLOURS[index % COLOURS.len()].filled(),
            ))?;
            write(&area, name, (plots + 38, y), 14, (HPos::Left, VPos::Center))?;
        }
        area.present()?;
        Ok(())
    }

    fn panels(&self, samples: &[Sample], names: &[&str], parts: &[&str]) -> Vec<Panel> {
        let x = |sample: &Sample| match self.x {
            X::Bytes | X::Parameter(_) => sample.x as f64,
            X::Ranks => sample.ranks as f64,
            X::Parts => parts
                .iter()
                .position(|part| *part == sample.panel)
                .unwrap_or(0) as f64,
        };
        let heading = |sample: &Sample| match self.x {
            X::Parts => String::new(),
            X::Bytes if sample.ranks > 0 => format!("{}, {} processes", sample.panel, sample.ranks),
            _ => sample.panel.clone(),
        };
        let mut panels: Vec<Panel> = Vec::new();
        for sample in samples {
            let heading = heading(sample);
            let known = panels.iter().position(|panel| panel.heading == heading);
            let at = known.unwrap_or_else(|| {
                let curves = (0..names.len()).map(|index| (index, Vec::new())).collect();
                panels.push(Panel { heading, curves });
                panels.len() - 1
            });
            let index = names.iter().position(|name| *name == sample.curve);
            panels[at].curves[index.unwrap_or(0)]
                .1
                .push((x(sample), sample.value));
        }
        for (_, points) in panels.iter_mut().flat_map(|panel| &mut panel.curves) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        panels
    }

    fn draw_panel(
        &self,
        area: &Area<'_>,
        (left, top): (i32, i32),
        panel: &Panel,
        x: &Axis,
        y: &Axis,
    ) -> Result<()> {
        let (x0, x1) = (left + MARGINS.0, left + PANEL.0 - MARGINS.1);
        let (y0, y1) = (top + MARGINS.2, top + PANEL.1 - MARGINS.3);
        let across = |value: f64| x0 + (x.place(value) * f64::from(x1 - x0)).round() as i32;
        let up = |value: f64| y1 - (y.place(value) * f64::from(y1 - y0)).round() as i32;
        let grid = RGBColor(220, 220, 220);
        for (value, label) in x.ticks() {
            let at = across(*value);
            area.draw(&PathElement::new([(at, y0), (at, y1)], grid))?;
            write(area, label, (at, y1 + 6), 12, (HPos::Center, VPos::Top))?;
        }
        for (value, label) in y.ticks() {
            let at = up(*value);
            area.draw(&PathElement::new([(x0, at), (x1, at)], grid))?;
            write(area, label, (x0 - 6, at), 12, (HPos::Right, VPos::Center))?;
        }
        area.draw(&Rectangle::new([(x0, y0), (x1, y1)], BLACK))?;
        let middle = i32::midpoint(x0, x1);
        write(
            area,
            &panel.heading,
            (middle, y0 - 8),
            14,
            (HPos::Center, VPos::Bottom),
        )?;
        write(
            area,
            &self.x.text(),
            (middle, y1 + 26),
            13,
            (HPos::Center, VPos::Top),
        )?;
        let unit = self.unit.text();
        write(area, unit, (x0, y0 - 8), 13, (HPos::Right, VPos::Bottom))?;
        for (index, points) in &panel.curves {
            let line: Vec<_> = points.iter().map(|&(x, y)| (across(x), up(y))).collect();
            if self.x != X::Parts {
                area.draw(&PathElement::new(line.clone(), style(*index)))?;
            }
            for at in line {
                area.draw(&Circle::new(at, 3, COLOURS[index % COLOURS.len()].filled()))?;
            }
        }
        Ok(())
    }
}

fn style(curve: usize) -> ShapeStyle {
    COLOURS[curve % COLOURS.len()].stroke_width(2)
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, pos: (HPos, VPos)) -> Result<()> {
    let style = TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(pos.0, pos.1));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_titles_units_and_ticks_are_drawn() {
        let sample = |curve: &str, x, value| Sample {
            panel: "gather".to_owned(),
            curve: curve.to_owned(),
            x,
            ranks: 4,
            value,
            best: value,
        };
        let samples = [
            sample("tree", 4, 2.0),
            sample("tree", 1024, 30.0),
            sample("Direct", 4, 3.0),
            sample("Direct", 1024, 9.0),
        ];
        let chart = |x| Chart {
            name: "qian2008:fig9",
            title: "Gather",
            x,
            unit: Unit::Time,
        };
        let mut text = String::new();
        chart(X::Bytes).draw(&mut text, &samples).unwrap();
        for part in [
            "qian2008:fig9: Gather",
            "tree",
            "Direct",
            "gather, 4 processes",
            "Message size (bytes)",
            "1K",
            "us",
        ] {
            assert!(text.contains(&format!("\n{part}\n")), "{part}: {text}");
        }
        assert_eq!(text.matches("<circle").count(), 4 + 2);
        assert_eq!(text.matches("stroke-width=\"2\"").count(), 2 + 2);
        let mut text = String::new();
        chart(X::Parts).draw(&mut text, &samples[..1]).unwrap();
        assert_eq!(text.matches("<circle").count(), 1 + 1);
    }
}
