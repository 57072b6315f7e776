// Reads an AsyncAPI document on standard input; fails with what its official parser has to say
// against it.
import { Parser } from '@asyncapi/parser';
import { readFileSync } from 'node:fs';

const { document, diagnostics } = await new Parser().parse(readFileSync(0, 'utf8'));
const errors = diagnostics.filter((diagnostic) => diagnostic.severity === 0);
for (const { path, message } of errors) console.error(`${path.join('.')}: ${message}`);
if (errors.length > 0 || !document) process.exit(1);
console.log(`${document.version()}: ${document.channels().length} channels, ${document.operations().length} operations`);
