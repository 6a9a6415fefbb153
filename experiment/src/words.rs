//! Values that have one word each, and values whose text is their form in files.

/// An enum of values with one word each, which the command line, the files and the report use alike. What stands behind
/// its name says what a wrong word is told; `{all}` stands for the words there are.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $Name:ident or $wrong:literal {
            $($(#[$value:meta])* $Value:ident = $word:literal,)+
        }
    ) => {
        $(#[$about])*
        pub enum $Name {
            $($(#[$value])* $Value,)+
        }

        impl $Name {
            /// All of them, in their order.
            pub const ALL: [$Name; [$($word),+].len()] = [$($Name::$Value),+];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self {
                    $($Name::$Value => $word,)+
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = String;

            fn from_str(text: &str) -> Result<$Name, String> {
                let found = $Name::ALL.into_iter().find(|value| value.word() == text);
                let all = || $Name::ALL.map($Name::word).join(", ");
                found.ok_or_else(|| format!("'{text}' is no {}", $wrong.replace("{all}", &all())))
            }
        }
    };
}

/// Files have the text of such a value: `serde(into = "String", try_from = "String")`.
macro_rules! text_in_files {
    ($Name:ident) => {
        impl From<$Name> for String {
            fn from(value: $Name) -> String {
                value.to_string()
            }
        }

        impl TryFrom<String> for $Name {
            type Error = String;

            fn try_from(text: String) -> Result<$Name, String> {
                text.parse()
            }
        }
    };
}

pub(crate) use {text_in_files, words};
