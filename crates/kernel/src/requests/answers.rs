//! The lines of remembered answers, one behind the other in large pieces of memory.
//!
//! Answers are kept by the ten thousand and mostly never looked at again. They come and go in
//! nearly the same order, so they are written like a log: whoever adds one touches memory next to
//! what was touched last, and whoever forgets one only counts. A piece is used anew when all of its
//! answers are forgotten.

/// Bytes of one piece of memory.
const PIECE_BYTES: usize = 64 * 1024;

/// A longer answer gets a piece of its own.
const SHARED_BYTES_MAX: usize = PIECE_BYTES / 8;

/// Pieces kept for the next answers.
const SPARE_PIECES_MAX: usize = 4;

/// Where an answer is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerPlace {
    piece: u32,
    line: (u32, u32),
    /// The id of the request, on the line or behind it.
    id: (u32, u32),
}

impl AnswerPlace {
    /// The place of an answer that is no longer kept.
    pub(super) const FORGOTTEN: AnswerPlace = AnswerPlace { piece: u32::MAX, line: (0, 0), id: (0, 0) };

    pub(super) fn is_forgotten(&self) -> bool {
        self.piece == u32::MAX
    }

    /// Bytes of the line.
    pub(super) fn len(&self) -> usize {
        (self.line.1 - self.line.0) as usize
    }
}

#[derive(Debug, Default)]
struct Piece {
    text: String,
    /// How many of its answers are remembered.
    answers: u32,
}

/// The kept lines. The caller bounds their number and bytes, and [`Answers::wasted_bytes`].
#[derive(Debug, Default)]
pub(super) struct Answers {
    pieces: Vec<Piece>,
    /// The piece that grows.
    current: u32,
    /// Pieces without memory.
    vacant: Vec<u32>,
    spare: Vec<String>,
    held_bytes: usize,
    used_bytes: usize,
}

impl Answers {
    /// Keeps a line with the id of its request; `id_place` is where that stands on the line, if it
    /// does.
    #[inline(always)]
    pub(super) fn keep(&mut self, line: &str, id: &str, id_place: Option<(u32, u32)>) -> AnswerPlace {
        let room = line.len() + if id_place.is_none() { id.len() } else { 0 };
        let piece = self.piece_with(room);
        let it = &mut self.pieces[piece as usize];
        let start = it.text.len() as u32;
        it.text.push_str(line);
        let end = it.text.len() as u32;
        let id = match id_place {
            Some((from, to)) => (start + from, start + to),
            None => {
                it.text.push_str(id);
                (end, it.text.len() as u32)
            }
        };
        it.answers += 1;
        self.used_bytes += line.len();
        AnswerPlace { piece, line: (start, end), id }
    }

    /// The line of an answer.
    pub(super) fn line(&self, place: AnswerPlace) -> &str {
        &self.pieces[place.piece as usize].text[place.line.0 as usize..place.line.1 as usize]
    }

    /// The id of the request that it answered.
    pub(super) fn id(&self, place: AnswerPlace) -> &str {
        &self.pieces[place.piece as usize].text[place.id.0 as usize..place.id.1 as usize]
    }

    /// Lets go of an answer.
    pub(super) fn forget(&mut self, place: AnswerPlace) {
        self.used_bytes -= place.len();
        let it = &mut self.pieces[place.piece as usize];
        it.answers -= 1;
        if it.answers == 0 && place.piece != self.current {
            self.retire(place.piece);
        }
    }

    /// Keeps an answer at the end of the piece that grows, so that the piece in which it stood can
    /// go.
    #[cold]
    #[inline(never)]
    pub(super) fn move_to_end(&mut self, place: AnswerPlace) -> AnswerPlace {
        let has_own_piece = self.pieces[place.piece as usize].text.capacity() != PIECE_BYTES;
        if place.piece == self.current || has_own_piece {
            return place;
        }
        let (line, id) = (self.line(place).to_owned(), self.id(place).to_owned());
        let on_line = place.id.0 < place.line.1;
        let moved =
            self.keep(&line, &id, on_line.then(|| (place.id.0 - place.line.0, place.id.1 - place.line.0)));
        self.forget(place);
        moved
    }

    /// Bytes that are held for answers forgotten already, because younger or older ones stand
    /// beside them. Less than one piece does not count.
    pub(super) fn wasted_bytes(&self) -> usize {
        (self.held_bytes - self.used_bytes).saturating_sub(PIECE_BYTES)
    }

    /// A piece with room for so many bytes.
    fn piece_with(&mut self, bytes: usize) -> u32 {
        match self.pieces.get(self.current as usize) {
            Some(it) if it.text.capacity() - it.text.len() >= bytes => self.current,
            _ => self.begin_piece(bytes),
        }
    }

    #[cold]
    fn begin_piece(&mut self, bytes: usize) -> u32 {
        let is_shared = bytes <= SHARED_BYTES_MAX;
        let text = match is_shared {
            true => self.spare.pop().unwrap_or_else(|| String::with_capacity(PIECE_BYTES)),
            false => String::with_capacity(bytes),
        };
        self.held_bytes += text.capacity();
        let piece = self.vacant.pop().unwrap_or_else(|| {
            self.pieces.push(Piece::default());
            (self.pieces.len() - 1) as u32
        });
        self.pieces[piece as usize].text = text;
        if is_shared {
            // The piece before may have become empty while it was the one that grew.
            let before = std::mem::replace(&mut self.current, piece);
            if before != piece && self.pieces[before as usize].answers == 0 {
                self.retire(before);
            }
        }
        piece
    }

    #[cold]
    fn retire(&mut self, piece: u32) {
        let mut text = std::mem::take(&mut self.pieces[piece as usize].text);
        self.held_bytes -= text.capacity();
        self.vacant.push(piece);
        if text.capacity() == PIECE_BYTES && self.spare.len() < SPARE_PIECES_MAX {
            text.clear();
            self.spare.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A line of so many bytes that tells `number`.
    fn line(number: usize, bytes: usize) -> String {
        let mut line = number.to_string();
        line.extend(std::iter::repeat_n('x', bytes.saturating_sub(line.len())));
        line
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let mut answers = Answers::default();
        let lengths = [1, 100, SHARED_BYTES_MAX, SHARED_BYTES_MAX + 1, 3 * PIECE_BYTES, PIECE_BYTES, 7];
        let lines: Vec<String> = (0..70).map(|number| line(number, lengths[number % 7])).collect();
        let places: Vec<AnswerPlace> = lines
            .iter()
            .enumerate()
            .map(|(number, line)| match number % 2 {
                0 => answers.keep(line, "", Some((0, 1))),
                _ => answers.keep(line, "an \"id\"", None),
            })
            .collect();
        for (number, (line, place)) in lines.iter().zip(&places).enumerate() {
            assert_eq!(answers.line(*place), line);
            assert_eq!(answers.id(*place), if number % 2 == 0 { &line[..1] } else { "an \"id\"" });
            assert_eq!(place.len(), line.len());
        }
    }

    #[test]
    fn forgotten_answers_give_their_memory_back() {
        let mut answers = Answers::default();
        let mut kept = VecDeque::new();
        for number in 0..100_000 {
            let bytes = if number % 1000 == 0 { 2 * PIECE_BYTES } else { number % 300 };
            let line = line(number, bytes);
            kept.push_back((answers.keep(&line, "", Some((0, 1))), line));
            if kept.len() > 1000 {
                let (place, line) = kept.pop_front().unwrap();
                assert_eq!(answers.line(place), line);
                answers.forget(place);
            }
            assert!(answers.wasted_bytes() <= PIECE_BYTES, "{number}: {}", answers.wasted_bytes());
        }
        kept.drain(..).for_each(|(place, _)| answers.forget(place));
        assert_eq!((answers.used_bytes, answers.held_bytes), (0, PIECE_BYTES), "the piece that grows");
        assert!(answers.pieces.len() < 100, "{} pieces", answers.pieces.len());
    }

    #[test]
    fn what_lies_between_forgotten_answers_is_counted_as_wasted() {
        let mut answers = Answers::default();
        let mut stay = Vec::new();
        for number in 0..PIECE_BYTES {
            let place = answers.keep(&line(number, 64), "", Some((0, 1)));
            // One of each piece stays, the others go.
            if number % (PIECE_BYTES / 64) == 0 { stay.push(place) } else { answers.forget(place) }
        }
        assert!(answers.wasted_bytes() > 60 * PIECE_BYTES);
        stay.into_iter().for_each(|place| answers.forget(place));
        assert_eq!(answers.wasted_bytes(), 0);
    }
}
