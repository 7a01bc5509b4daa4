use super::*;
use ferrorail_base::sync::Ordering;
