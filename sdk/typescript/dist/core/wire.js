/**
 * A wire over anything that writes and says when it has. How much waits is counted here: not every
 * runtime's streams tell it, or that they have drained.
 */
export class CountedWire {
    #write;
    #onEmpty;
    #waiting = 0;
    #calls = [];
    #isClosed = false;
    constructor(write, onEmpty = () => { }) {
        this.#write = write;
        this.#onEmpty = onEmpty;
    }
    send(text) {
        if (this.#isClosed)
            return;
        const { length } = text;
        this.#waiting += length;
        this.#write(text, () => {
            this.#waiting -= length;
            if (this.#waiting <= 0)
                this.#emptied();
        });
    }
    waiting() {
        return this.#waiting;
    }
    whenEmpty(call) {
        if (this.#waiting <= 0 || this.#isClosed)
            queueMicrotask(call);
        else
            this.#calls.push(call);
    }
    /** Nothing will be written any more: whoever waits need not. */
    close() {
        this.#isClosed = true;
        this.#emptied();
    }
    #emptied() {
        const calls = this.#calls;
        this.#calls = [];
        for (const call of calls)
            call();
        this.#onEmpty();
    }
}
