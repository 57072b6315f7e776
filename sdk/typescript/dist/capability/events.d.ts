import type { Message } from "../message/message.ts";
/** Events in the order in which they came, so many at a time. */
export declare class EventQueue {
    #private;
    constructor(atOnce: number, run: (message: Message) => void | Promise<void>, onRoom: () => void);
    push(message: Message, length: number): void;
    isFull(): boolean;
    isBusy(): boolean;
}
