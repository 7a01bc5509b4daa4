//! The length of every function in a Rust file.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Name and number of lines, from `fn` to the closing brace, of every function with a body.
/// Functions that share a name (methods of several types) are told apart by `#2`, `#3` and so on.
pub(super) fn measure(text: &str) -> syn::Result<Vec<(String, usize)>> {
    let mut found = Found::default();
    found.visit_file(&syn::parse_file(text)?);
    Ok(found.functions)
}

/// Number of methods of the trait `name`, those with a body too; `None` if there is no such trait.
pub(super) fn methods(text: &str, name: &str) -> syn::Result<Option<usize>> {
    let file = syn::parse_file(text)?;
    let mut traits = file.items.iter().filter_map(|item| match item {
        syn::Item::Trait(item) if item.ident == name => Some(item),
        _ => None,
    });
    let is_method = |item: &&syn::TraitItem| matches!(item, syn::TraitItem::Fn(_));
    Ok(traits
        .next()
        .map(|found| found.items.iter().filter(is_method).count()))
}

#[derive(Default)]
struct Found {
    functions: Vec<(String, usize)>,
}

impl Found {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.span().start().line;
        let last = body.brace_token.span.close().end().line;
        let plain = signature.ident.to_string();
        let numbered = format!("{plain}#");
        let same = |name: &str| name == plain || name.starts_with(&numbered);
        let earlier = self.functions.iter().filter(|(name, _)| same(name)).count();
        let name = match earlier {
            0 => plain,
            n => format!("{plain}#{}", n + 1),
        };
        self.functions.push((name, last - first + 1));
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_a_trait_are_counted() {
        let text = "trait A { fn a(); fn b() {} type C; } trait B { fn c(); }";
        let count = |name| methods(text, name).unwrap();
        assert_eq!(
            (count("A"), count("B"), count("C")),
            (Some(2), Some(1), None)
        );
    }

    #[test]
    fn functions_methods_and_defaults_are_measured() {
        let text = "/// Long\n/// words.\nfn free(\n    a: u8,\n) {\n    fn inner() {}\n}\n\
                    trait T { fn required(); fn given() {} }\n\
                    impl T for u8 { fn required() {\n} }\n\
                    mod m { fn free() {} }\n";
        let expected = [
            ("free", 5),
            ("inner", 1),
            ("given", 1),
            ("required", 2),
            ("free#2", 1),
        ];
        let expected = expected.map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(measure(text).unwrap(), expected);
    }

    #[test]
    fn a_file_that_is_no_rust_is_an_error() {
        assert!(measure("fn (").is_err());
    }
}
