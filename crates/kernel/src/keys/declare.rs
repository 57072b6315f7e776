//! The macros that declare tables and words.

/// Declares a table of settings: one entry for each key, which says all that reading, checking,
/// comparing and documenting it need.
///
/// An entry is `name: Type`, then `as Unit` if people write it otherwise than the program holds it,
/// `= default` unless the key is needed, and `, in bounds` if not every value makes sense.
///
/// ```
/// use mainspring_kernel::keys::{Bytes, Keys, KeyType};
///
/// mainspring_kernel::keys! {
///     /// What a cache may use.
///     pub struct CacheSettings {
///         /// Bytes of memory.
///         memory: usize as Bytes = 64 << 20, in 1..;
///         /// Entries. Beyond: the oldest goes.
///         entries: usize = 1000, in 1..=1_000_000;
///     }
/// }
///
/// let cache: CacheSettings = serde_json::from_str(r#"{ "memory": "2MiB" }"#)?;
/// assert_eq!((cache.memory, cache.entries), (2 << 20, 1000));
/// assert_eq!(CacheSettings { entries: 0, ..cache }.out_of_bounds()[0].message, "must be at least 1");
/// assert_eq!(CacheSettings::keys()[0].takes, "size");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! keys {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty $(as $unit:ty)? $(= $default:expr)? $(, in $bounds:expr)?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis struct $table {
            $($(#[doc = $doc])* $vis $field: $type,)*
        }

        $crate::keys!(@default $table $([$field $($default)?])*);

        impl<'de> $crate::keys::serde::Deserialize<'de> for $table {
            fn deserialize<D>(deserializer: D) -> ::std::result::Result<$table, D::Error>
            where
                D: $crate::keys::serde::Deserializer<'de>,
            {
                const NAMES: &[&str] = &[$(stringify!($field)),*];
                struct TableVisitor;
                impl<'de> $crate::keys::serde::de::Visitor<'de> for TableVisitor {
                    type Value = $table;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("a table")
                    }

                    fn visit_map<A>(self, mut map: A) -> ::std::result::Result<$table, A::Error>
                    where
                        A: $crate::keys::serde::de::MapAccess<'de>,
                    {
                        $(let mut $field: ::std::option::Option<$type> = None;)*
                        while let Some(name) = map.next_key_seed($crate::keys::OneOf(NAMES))? {
                            $(if name == stringify!($field) {
                                $field = Some($crate::keys!(@read map, $type $(, $unit)?));
                            })*
                        }
                        Ok($table {
                            $($field: match $field {
                                Some(value) => value,
                                None => $crate::keys!(@missing A, $field $(, $default)?),
                            },)*
                        })
                    }
                }
                deserializer.deserialize_struct(stringify!($table), NAMES, TableVisitor)
            }
        }

        impl $crate::keys::KeyType for $table {
            fn takes() -> ::std::string::String {
                "table".into()
            }

            fn written(&self) -> ::std::option::Option<::std::string::String> {
                None
            }

            fn out_of_bounds(&self) -> ::std::vec::Vec<$crate::keys::OutOfBounds> {
                let mut found = ::std::vec::Vec::new();
                $($crate::keys!(@check found, self, $field, $type $(as $unit)? $(, in $bounds)?);)*
                found
            }
        }

        impl $crate::keys::Keys for $table {
            const ABOUT: &'static str = concat!($($about, "\n"),*);

            fn keys() -> ::std::vec::Vec<$crate::keys::Key> {
                ::std::vec![$($crate::keys::Key {
                    name: stringify!($field),
                    about: concat!($($doc, "\n"),*),
                    takes: $crate::keys!(@takes $type $(, $unit)?),
                    bounds: $crate::keys!(@bounds $type $(as $unit)? $(, in $bounds)?),
                    default: $crate::keys!(@shown $type $(as $unit)? $(= $default)?),
                }),*]
            }

            fn changed(&self, other: &Self) -> ::std::vec::Vec<&'static str> {
                let mut names = ::std::vec::Vec::new();
                $(if self.$field != other.$field {
                    names.push(stringify!($field));
                })*
                names
            }
        }
    };

    // There is a default of the table if there is one of every key.
    (@default $table:ident $([$field:ident $default:expr])*) => {
        impl ::std::default::Default for $table {
            fn default() -> $table {
                $table { $($field: $default),* }
            }
        }
    };
    (@default $($rest:tt)*) => {};

    (@read $map:ident, $type:ty) => { $map.next_value::<$type>()? };
    (@read $map:ident, $type:ty, $unit:ty) => {
        <$unit as $crate::keys::Unit<$type>>::into_value($map.next_value::<$unit>()?)
    };

    (@missing $map:ident, $field:ident) => {
        return Err(<$map::Error as $crate::keys::serde::de::Error>::missing_field(stringify!($field)))
    };
    (@missing $map:ident, $field:ident, $default:expr) => { $default };

    (@takes $type:ty) => { <$type as $crate::keys::KeyType>::takes() };
    (@takes $type:ty, $unit:ty) => { <$unit as $crate::keys::KeyType>::takes() };

    (@show $type:ty) => { |value: &$type| $crate::keys::KeyType::written(value) };
    (@show $type:ty, $unit:ty) => {
        |value: &$type| $crate::keys::KeyType::written(&<$unit as $crate::keys::Unit<$type>>::of(value))
    };

    (@shown $type:ty $(as $unit:ty)?) => { $crate::keys::KeyDefault::Needed };
    (@shown $type:ty $(as $unit:ty)? = $default:expr) => {{
        let show = $crate::keys!(@show $type $(, $unit)?);
        let default: $type = $default;
        $crate::keys::KeyDefault::of(show(&default))
    }};

    (@plain $type:ty $(as $unit:ty)?) => {{
        let show = $crate::keys!(@show $type $(, $unit)?);
        move |value: &$type| show(value).unwrap_or_default().trim_matches('"').to_owned()
    }};

    (@bounds $type:ty $(as $unit:ty)?) => { None };
    (@bounds $type:ty $(as $unit:ty)?, in $bounds:expr) => {
        $crate::keys::in_words::<$type>(&($bounds), $crate::keys!(@plain $type $(as $unit)?))
    };

    // A value with a unit is no table.
    (@check $found:ident, $self:ident, $field:ident, $type:ty as $unit:ty) => {};
    (@check $found:ident, $self:ident, $field:ident, $type:ty) => {
        for below in $crate::keys::KeyType::out_of_bounds(&$self.$field) {
            let key = format!(concat!(stringify!($field), ".{}"), below.key);
            $found.push($crate::keys::OutOfBounds { key, ..below });
        }
    };
    (@check $found:ident, $self:ident, $field:ident, $type:ty $(as $unit:ty)?, in $bounds:expr) => {
        let show = $crate::keys!(@plain $type $(as $unit)?);
        if let Some(message) = $crate::keys::must_be(&$self.$field, &($bounds), show) {
            $found.push($crate::keys::OutOfBounds { key: stringify!($field).into(), message });
        }
    };
}

/// Declares a choice of words: an enum, and what each variant is written as.
///
/// ```
/// mainspring_kernel::words! {
///     /// When to write to the disk.
///     pub enum When {
///         /// At once.
///         Always = "always",
///         /// When the operating system likes.
///         Never = "never",
///     }
/// }
///
/// assert_eq!(serde_json::from_str::<When>("\"never\"")?, When::Never);
/// assert_eq!(When::Never.word(), "never");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident {
            $($(#[doc = $doc:literal])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name {
            $($(#[doc = $doc])* $variant,)*
        }

        impl $name {
            /// The word for it.
            #[must_use]
            $vis const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl<'de> $crate::keys::serde::Deserialize<'de> for $name {
            fn deserialize<D>(deserializer: D) -> ::std::result::Result<$name, D::Error>
            where
                D: $crate::keys::serde::Deserializer<'de>,
            {
                const WORDS: &[&str] = &[$($word),*];
                struct WordVisitor;
                impl $crate::keys::serde::de::Visitor<'_> for WordVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        write!(f, "one of the words {}", WORDS.join(", "))
                    }

                    fn visit_str<E>(self, word: &str) -> ::std::result::Result<$name, E>
                    where
                        E: $crate::keys::serde::de::Error,
                    {
                        match word {
                            $($word => Ok($name::$variant),)*
                            _ => Err(E::unknown_variant(word, WORDS)),
                        }
                    }
                }
                deserializer.deserialize_str(WordVisitor)
            }
        }

        impl $crate::keys::KeyType for $name {
            fn takes() -> ::std::string::String {
                [$(concat!("`", $word, "`")),*].join(", ")
            }

            fn written(&self) -> ::std::option::Option<::std::string::String> {
                Some(format!("\"{}\"", self.word()))
            }
        }
    };
}
