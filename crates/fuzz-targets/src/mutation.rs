//! Inputs made from others, the same for the same seed.

/// Values at the edges of what numbers hold.
const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'\n'];
/// Pieces that matter to one reader or another.
const PIECES: [&[u8]; 16] = [
    b"\"kind\":\"command\"",
    b"\"type\":",
    b"\"metadata\"",
    b"\"timestamp\":1e400",
    b"\\u0000",
    b"\\ud800",
    b"{\"$ref\":\"#\"}",
    b"\"oneOf\":[",
    b"[[[[[[[[",
    b"ZCL1",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"18446744073709551616",
    b"-0.0",
    b"\r\n",
    b"\xf0\x9f\x98\x80",
];
/// Mutated inputs stay below this.
const BYTES_MAX: usize = 4096;

/// Makes inputs from others.
pub struct Mutator(u64);

impl Mutator {
    /// The same seed makes the same inputs.
    #[must_use]
    pub fn new(seed: u64) -> Mutator {
        Mutator(seed)
    }

    /// A number below a bound that looks random.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % bound.max(1) as u64) as usize
    }

    /// Another input, from one of those that are there.
    pub fn mutate(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.pick(corpus).to_vec();
        for _ in 0..1 + self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn pick<'a>(&mut self, corpus: &'a [Vec<u8>]) -> &'a [u8] {
        corpus.get(self.below(corpus.len())).map_or(&[], Vec::as_slice)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let count = (1 + self.below(16)).min(bytes.len() - at);
        match self.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = EDGES[self.below(EDGES.len())],
            2 => drop(bytes.drain(at..at + count)),
            3 => {
                let copy = bytes[at..at + count].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            4 => {
                let piece = PIECES[self.below(PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            5 => {
                let other = self.pick(corpus);
                let from = self.below(other.len() + 1);
                let piece = other[from..].to_vec();
                bytes.truncate(at);
                bytes.extend(piece);
            }
            _ => bytes.insert(at, self.below(256) as u8),
        }
    }
}
