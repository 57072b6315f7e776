//! Bodies: what is sent, and what is read within bounds.

use crate::limits::Limits;
use crate::problem::Problem;
use crate::wire::connection::Answering;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use mainspring_reactor::Handle;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The body of a response. While it is there, its request is being answered.
pub(crate) struct Body {
    content: Content,
    answering: Option<Answering>,
}

/// Whole, or a stream that ends when it has nothing more to say.
enum Content {
    Full(Option<Bytes>),
    Stream(Pin<Box<dyn Chunks>>),
}

/// A stream of pieces.
pub(crate) trait Chunks {
    /// The next piece; `None` ends the body.
    fn poll_chunk(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl Body {
    pub(crate) fn full(bytes: Bytes) -> Body {
        Body { content: Content::Full(Some(bytes)), answering: None }
    }

    pub(crate) fn empty() -> Body {
        Body { content: Content::Full(None), answering: None }
    }

    pub(crate) fn stream(chunks: impl Chunks + 'static) -> Body {
        Body { content: Content::Stream(Box::pin(chunks)), answering: None }
    }

    /// The request counts as being answered until this body is gone.
    pub(crate) fn hold(&mut self, answering: Answering) {
        self.answering = Some(answering);
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Stream(stream) => {
                stream.as_mut().poll_chunk(context).map(|chunk| Some(Ok(Frame::data(chunk?))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// Reads a whole body, within its bounds.
pub(crate) async fn read(reactor: &Handle, limits: &Limits, body: Incoming) -> Result<Bytes, Problem> {
    let too_large = || {
        let text = format!("the body is longer than {} bytes (limits.line_bytes_max)", limits.body_bytes_max);
        // What is left of it would have to be read before the next request.
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text).and_close()
    };
    if body.size_hint().lower() > limits.body_bytes_max as u64 {
        return Err(too_large());
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let mut collecting = pin!(collect(body, limits.body_bytes_max));
    // Most bodies have come with their heads, and need no clock.
    let at_once = poll_fn(|context| Poll::Ready(collecting.as_mut().poll(context))).await;
    let collected = match at_once {
        Poll::Ready(collected) => Ok(collected),
        Poll::Pending => reactor.timeout(limits.body_time_max, collecting).await,
    };
    match collected {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(too_large()),
        Ok(Err(error)) => {
            let text = format!("the body cannot be read: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, text).and_close())
        }
        Err(_) => {
            let text = format!("the body did not come within {:?}", limits.body_time_max);
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, text).and_close())
        }
    }
}

/// The whole body; `None` if it is longer than `max`.
async fn collect(mut body: Incoming, max: usize) -> Result<Option<Bytes>, hyper::Error> {
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if first.as_ref().map_or(0, Bytes::len) + all.len() + piece.len() > max {
            return Ok(None);
        }
        // Most bodies come in one piece, which needs no copy.
        match first.take() {
            None if all.is_empty() => first = Some(piece),
            one => {
                all.extend_from_slice(one.as_deref().unwrap_or_default());
                all.extend_from_slice(&piece);
            }
        }
    }
    Ok(Some(first.unwrap_or_else(|| all.freeze())))
}
