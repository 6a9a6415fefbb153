//! Settings of what wraps a request: those of the request.

/// For each of these a method that sets it on this field.
macro_rules! setters {
    ($field:ident: $($(#[$about:meta])* $name:ident($($value:ident: $Value:ty)?);)*) => {
        $(
            $(#[$about])*
            pub fn $name(mut self $(, $value: $Value)?) -> Self {
                self.$field = self.$field.$name($($value)?);
                self
            }
        )*
    };
}

pub(crate) use setters;
