#include <string>

#include <gmock/gmock.h>

#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "../tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::run_program;
using sinew::test::ScratchFolder;
using ::testing::HasSubstr;

/// Reads the files as their formats say, with Python's safetensors where that is installed, else without; puts items
/// together by their parts' names, and compares them with the bytes that the C++ side of the test has saved.
constexpr const char* kReader = R"(
import json, os, re, struct, sys, zlib
size = {'F64': 8, 'I64': 8, 'F32': 4, 'F16': 2, 'BF16': 2, 'U8': 1}
folder, mask = sys.argv[1], (1 << 64) - 1
def product(shape):
    n = 1
    for s in shape: n *= s
    return n
def byte_of(name, at):
    x = ((at + 1) * 0x9E3779B97F4A7C15) & mask
    for c in name.encode(): x = ((x ^ c) * 0x100000001B3) & mask
    return (x >> 37) & 255
def tensors_of(path):
    raw = open(path, 'rb').read()
    length = struct.unpack('<Q', raw[:8])[0]
    header, data, end = json.loads(raw[8:8 + length]), raw[8 + length:], 0
    assert all(type(v) is str for v in header.pop('__metadata__').values())
    for name, t in sorted(header.items(), key=lambda kv: kv[1]['data_offsets']):
        first, last = t['data_offsets']
        assert first == end and last - first == product(t['shape']) * size[t['dtype']], name
        assert (8 + length + first) % size[t['dtype']] == 0, name
        end = last
        yield name, t['dtype'], t['shape'], data[first:last]
    assert end == len(data)
try:
    from safetensors import safe_open
except ImportError:
    safe_open = None
print('safetensors module:', 'yes' if safe_open else 'not installed, read by struct and json')
index = json.load(open(folder + '/index.json'))
shapes = {i['name']: (i['dtype'].upper(), i['shape']) for i in index['items']}
whole, have = {}, {}
for f in index['files']:
    path = folder + '/' + f['name']
    assert os.path.getsize(path) == f['header_bytes'] + f['data_bytes']
    if safe_open:
        with safe_open(path, 'np') as s: names = set(s.keys())
        assert names == {n for n, *_ in tensors_of(path)}
    for name, dtype, shape, data in tensors_of(path):
        m = re.fullmatch(r'(.*?)(?:@\[(.*)\])?(?:@(\d+):(\d+))?', name)
        item = m[1]
        assert shapes[item][0] == dtype, name
        total = shapes[item][1]
        box = [tuple(map(int, s.split(':'))) for s in m[2].split(',')] if m[2] else [(0, n) for n in total]
        numbers = [0]
        for (a, b), n in zip(box, total): numbers = [x * n + i for x in numbers for i in range(a, b)]
        if m[3]: numbers = numbers[int(m[3]):int(m[4])]
        assert len(numbers) == product(shape), name
        for k, number in enumerate(numbers):
            assert number not in have.setdefault(item, set()), name
            have[item].add(number)
            for b in range(size[dtype]):
                assert data[k * size[dtype] + b] == byte_of(item, number * size[dtype] + b), (name, number)
for item, (dtype, shape) in shapes.items(): assert len(have.get(item, ())) == product(shape), item
for i in index['items']:
    for p in i['parts']:
        f = index['files'][p['file']]
        box = product([b - a for a, b in zip(p['box_first'], p['box_last'])]) if 'box_first' in p else 0
        data = open(folder + '/' + f['name'], 'rb').read()[f['header_bytes'] + p['offset']:][:(p['last'] - p['first']) * size[i['dtype'].upper()]]
        block = index['block_bytes']
        assert p['crcs'] == [zlib.crc32(data[k:k + block]) for k in range(0, len(data), block)], i['name']
raw = open(folder + '/index.json', 'rb').read()
assert zlib.crc32(raw[:raw.rindex(b',"crc32"')]) == int(index['crc32'], 16)
print('all', len(shapes), 'items are right')
)";

TEST(Safetensors, FilesHoldWhatTheirFormatSays_AsReadByAnother) {
  if (run_program({"python3", "-c", "pass"}).exit_code != 0) GTEST_SKIP() << "python3 is not installed";
  for (const test::Lying how : {test::Lying::Copies, test::Lying::Rows, test::Lying::FlatOfColumns}) {
    ScratchFolder folder;
    std::size_t items = 0;
    on_threads(3, only("inproc"), [&](World& world) {
      test::Parts parts;
      for (const CheckpointItem& item : test::several_items()) {
        if (item.name == "large") continue;
        test::add_parts(parts, item, how, world.rank(), 3, true);
        if (world.rank() == 0) ++items;
      }
      save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 1});
    });
    const auto outcome = run_program({"python3", "-c", kReader, step_folder(folder / "c", 1)});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("all " + std::to_string(items) + " items are right"));
    if (how == test::Lying::Copies) std::cout << outcome.out;
  }
}

}  // namespace
}  // namespace sinew::parallel
