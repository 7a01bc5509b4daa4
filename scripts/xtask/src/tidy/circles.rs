//! Circles between files of one crate: files that use each other through `crate::`, `super::` or `self::` paths.
//!
//! A module and its own submodules may use each other; what a module re-exports counts as its own.
//! Modules and imports under `#[cfg(test)]` do not count.

use super::ratchet;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, UseGroup, UseTree};

/// Names from the root of a crate.
type Module = Vec<String>;

/// The crates of the repository by folder.
#[derive(Default)]
pub(super) struct Crates(BTreeMap<String, Crate>);

#[derive(Default)]
struct Crate {
    /// What lies in a file of its own, and in which.
    files: BTreeMap<Module, String>,
    /// A module and what it names: the path as it stands there.
    uses: BTreeMap<(Module, Module), String>,
}

impl Crates {
    /// Takes note of a Rust file, if it belongs to a crate.
    pub fn add(&mut self, path: &str, text: &str) -> syn::Result<()> {
        let inside = path.strip_suffix(".rs").and_then(|p| p.split_once("/src/"));
        let Some((folder, inside)) = inside else {
            return Ok(());
        };
        let mut module: Module = inside.split('/').map(str::to_owned).collect();
        module.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
        let owner = self.0.entry(folder.to_owned()).or_default();
        owner.files.insert(module.clone(), path.to_owned());
        let uses = &mut owner.uses;
        Uses { uses, module }.visit_file(&syn::parse_file(text)?);
        Ok(())
    }

    /// Complains of crates with another number of files in circles than is allowed.
    pub fn check(&self, allowed: &BTreeMap<String, usize>) -> Vec<String> {
        let (mut sizes, mut shown) = (BTreeMap::new(), Vec::new());
        for (folder, inside) in &self.0 {
            let edges = inside.edges();
            let circles = circles(&edges);
            let size = circles.iter().map(BTreeSet::len).sum();
            sizes.insert(folder.clone(), size);
            let grew = size > allowed.get(folder).copied().unwrap_or(0);
            for circle in circles.iter().filter(|_| grew) {
                for &by in circle {
                    for (&to, path) in edges[by].iter().filter(|(to, _)| circle.contains(*to)) {
                        let (by, to) = (&inside.files[by], &inside.files[to]);
                        shown.push(format!("{by} uses {to}: {path}"));
                    }
                }
            }
        }
        let lines = ratchet(&sizes, allowed, 0, "files in circles");
        lines.into_iter().chain(shown).collect()
    }
}

/// For each module those that it uses, with one path by which it does.
type Edges<'a> = BTreeMap<&'a Module, BTreeMap<&'a Module, &'a str>>;

impl Crate {
    /// The innermost module with a file of its own that `named` is in.
    fn holder(&self, named: &Module) -> Option<&Module> {
        let mut outwards = (0..=named.len()).rev().map(|length| &named[..length]);
        outwards.find_map(|module| Some(self.files.get_key_value(module)?.0))
    }

    fn edges(&self) -> Edges<'_> {
        let mut edges = Edges::new();
        for ((by, named), path) in &self.uses {
            if let (Some(by), Some(to)) = (self.holder(by), self.holder(named))
                && !(to.starts_with(by) || by.starts_with(to))
            {
                edges.entry(by).or_default().entry(to).or_insert(path);
            }
        }
        edges
    }
}

/// The largest sets of modules each of which reaches all others.
fn circles<'a>(edges: &Edges<'a>) -> BTreeSet<BTreeSet<&'a Module>> {
    let reached = |from: &'a Module| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(module) = left.pop() {
            let used = edges.get(module).into_iter().flat_map(BTreeMap::keys);
            left.extend(used.filter(|&&module| reached.insert(module)));
        }
        reached
    };
    let circles = edges.keys().map(|&from| {
        let mut circle = reached(from);
        circle.retain(|to| reached(to).contains(from));
        circle
    });
    circles.filter(|circle| !circle.is_empty()).collect()
}

/// Finds the paths in a file.
struct Uses<'a> {
    uses: &'a mut BTreeMap<(Module, Module), String>,
    /// Which is being looked at.
    module: Module,
}

impl Uses<'_> {
    fn note(&mut self, path: &[String]) {
        let mut named = self.module.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => named.clear(),
                "super" => drop(named.pop()),
                "self" => {}
                _ if index == 0 => return, // a local name, or another crate's
                _ => named.push(name.clone()),
            }
        }
        let uses = self.uses.entry((self.module.clone(), named));
        uses.or_insert_with(|| path.join("::"));
    }

    fn tree(&mut self, mut path: Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.tree(path, &tree.tree);
            }
            UseTree::Group(UseGroup { items, .. }) => {
                return items.iter().for_each(|tree| self.tree(path.clone(), tree));
            }
            UseTree::Name(name) if name.ident != "self" => path.push(name.ident.to_string()),
            UseTree::Rename(name) => path.push(name.ident.to_string()),
            _ => {}
        }
        self.note(&path);
    }

    /// What a macro is given need not be Rust: any names between `::` are a path.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => colons = 0,
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !item.attrs.iter().any(is_for_tests) {
            self.tree(Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let name = |part: &syn::PathSegment| part.ident.to_string();
        self.note(&path.segments.iter().map(name).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        self.tokens(invoked.tokens.clone());
        visit::visit_macro(self, invoked);
    }
}

/// Whether it is `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let condition: TokenStream = attribute.parse_args().unwrap_or_default();
    let condition = condition.to_string().replace(' ', "");
    attribute.path().is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], allowed: Option<usize>) -> Vec<String> {
        let mut crates = Crates::default();
        for (path, text) in files {
            crates.add(path, text).unwrap();
        }
        let allowed = allowed.map(|count| ("c".to_owned(), count));
        crates.check(&allowed.into_iter().collect())
    }

    const CIRCLE: [(&str, &str); 4] = [
        ("c/src/lib.rs", "mod a; mod b; use a::A;"),
        ("c/src/a.rs", "use super::b::{self, d::D}; use crate::e;"),
        ("c/src/b.rs", "fn f() { json!({ 1: crate::a::f(2) }) }"),
        ("c/src/b/d.rs", "mod inside { use super::super::B; }"),
    ];

    #[test]
    fn a_circle_is_shown_and_what_is_allowed_may_only_shrink() {
        let expected = [
            "c: grew from 1 to 2 files in circles",
            "c/src/a.rs uses c/src/b.rs: super::b",
            "c/src/b.rs uses c/src/a.rs: crate::a::f",
        ];
        assert_eq!(check(&CIRCLE, Some(1)), expected);
        assert_eq!(check(&CIRCLE, None)[1..], expected[1..]);
        assert_eq!(check(&CIRCLE, Some(2)), [""; 0]);
        assert!(check(&CIRCLE, Some(3))[0].contains("lower 3"));
        assert!(check(&[], Some(2))[0].contains("gone"));
    }

    #[test]
    fn every_path_counts_that_is_not_for_tests_or_to_a_parent() {
        for (text, counts) in [
            ("use crate::a::*;", true),
            ("fn f(x: Vec<super::a::A>) {}", true),
            ("mod m { fn f() { super::super::a::f() } }", true),
            ("#[cfg(test)] mod tests { use crate::a::f; }", false),
            ("#[cfg(all(test, loom))] use crate::a::f;", false),
            ("use super::*; use self::d::D; use other::a;", false),
        ] {
            let lines = check(&[CIRCLE[1], ("c/src/b.rs", text)], None);
            assert_eq!(!lines.is_empty(), counts, "{text}");
        }
    }
}
