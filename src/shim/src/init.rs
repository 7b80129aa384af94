//! Warms up before main, so that a program which allocates late, or never, still says that it was reached. Nothing
//! depends on it: a constructor of another library may well call us first.

ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn warm_up() {
        crate::runtime::ready();
    }
}
