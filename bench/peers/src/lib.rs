//! Nothing: this package only names the sources of the peers.
