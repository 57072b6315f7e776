/** An id that no other message has, of this process or of any other. */
export declare function freshId(): string;
/** Random bytes in hexadecimal. */
export declare function randomText(bytes: number): string;
