// Timers and an http server on loopback.
const http = require('http'), crypto = require('crypto');
let ticks = 0;
const timer = setInterval(() => ticks++, 5);
const server = http.createServer((q, r) => r.end('answer ' + q.url));
server.listen(0, '127.0.0.1', async () => {
  const port = server.address().port, h = crypto.createHash('sha256');
  for (let i = 0; i < 120; i++) {
    const text = await new Promise((yes, no) => http.get({ port, path: '/' + i }, r => {
      let t = ''; r.on('data', d => t += d); r.on('end', () => yes(t));
    }).on('error', no));
    h.update(text);
    if (i % 10 === 0) await new Promise(yes => setTimeout(yes, 7));
  }
  clearInterval(timer);
  server.close();
  console.log(h.digest('hex'), ticks > 0);
  process.exit(0);
});
