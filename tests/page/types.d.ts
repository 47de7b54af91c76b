// What tsc (tests/page/test_types.py) does not know: newer parts of browsers, D3 without its types, and the page for tests.
declare module "d3-hierarchy";
declare class DecompressionStream {
    constructor(format: string);
    readable: ReadableStream;
    writable: WritableStream;
}
interface Uint8ArrayConstructor {
    fromBase64?(text: string): Uint8Array;
}
interface Window {
    vramtrace: any;
}
