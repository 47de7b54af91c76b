// A JavaScript program that uses CUDA through a module in C, often enough to be compiled, and in a worker.
const { Worker, isMainThread, threadId } = require('worker_threads');
const cuda = { exports: {} };
process.dlopen(cuda, process.argv[2]);
if (isMainThread)
    cuda.exports.begin();
let sum = 0;
for (let i = 0; i < 20000; i++) {
    sum += String(i).length;
    if (i % 10 === 0)
        cuda.exports.pair();
}
console.log(isMainThread ? 'main' : 'worker', sum);
if (isMainThread)
    new Worker(__filename, { argv: [process.argv[2]] }).on('exit', code => console.log('worker ended', code));
