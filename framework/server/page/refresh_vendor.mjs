// Fetches the page's libraries from npm and records their versions, licences and hashes in vendor.json.
// To take a new version: change it here, run `node refresh_vendor.mjs` in this folder, and review the diff.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const plain = (text) => text.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, '\n');
const libraries = [
  { name: 'preact', version: '11.2.0', files: { 'dist/preact.mjs': ['preact.mjs', plain], 'hooks/dist/hooks.mjs': ['hooks.mjs', plain] } },
  { name: 'htm', version: '3.1.1', files: { 'dist/htm.mjs': ['htm.mjs', plain] } },
];

const records = libraries.map(({ name, version, files }) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-vendor-'));
  try {
    const [packed] = JSON.parse(execFileSync('npm', ['pack', `${name}@${version}`, '--json'], { cwd: folder, encoding: 'utf8' }));
    execFileSync('tar', ['xzf', packed.filename], { cwd: folder });
    const read = (path) => readFileSync(join(folder, 'package', path), 'utf8');
    const hashes = {};
    for (const [path, [target, change]] of Object.entries(files)) {
      const text = change(read(path));
      writeFileSync(join(here, 'static/vendor', target), text);
      hashes[target] = createHash('sha256').update(text).digest('hex');
    }
    writeFileSync(join(here, 'static/vendor', `LICENSE.${name}`), read('LICENSE'));
    return { name, version, license: JSON.parse(read('package.json')).license, integrity: packed.integrity, files: hashes };
  } finally {
    rmSync(folder, { recursive: true });
  }
});
writeFileSync(join(here, 'vendor.json'), `${JSON.stringify(records, null, 2)}\n`);
