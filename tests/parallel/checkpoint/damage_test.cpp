#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/index/crc32.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::ScratchFolder;
using ::testing::HasSubstr;

const CheckpointItem kFirst{"first", DType::F32, {10, 3}}, kSecond{"second", DType::BF16, {77}};

void write(const std::string& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

/// A checkpoint of two ranks, loaded by two, both of which end alike.
class Damaged : public ::testing::Test {
 protected:
  Damaged() {
    on_threads(2, only("inproc"), [&](World& world) {
      test::Parts parts;
      parts.add(kFirst, range_of(kFirst, world.rank() * 13, world.rank() == 0 ? 13 : 30), true);
      parts.add(kSecond, whole_of(kSecond), true);
      save_checkpoint(world.communicator(), folder_ / "c", parts.all, {.step = 1});
    });
  }

  std::string file(const std::string& name) const { return step_folder(folder_ / "c", 1) + "/" + name; }

  /// "" where all went well.
  std::string load() const {
    std::vector<std::string> said(2);
    on_threads(2, only("inproc"), [&](World& world) {
      test::Parts parts;
      parts.add(kFirst, whole_of(kFirst), false);
      parts.add(kSecond, whole_of(kSecond), false);
      std::string& mine = said[static_cast<std::size_t>(world.rank())];
      try {
        static_cast<void>(load_checkpoint(world.communicator(), step_folder(folder_ / "c", 1), parts.all));
        if (parts.wrong_bytes() > 0) mine = "WRONG BYTES, and nobody said so";
      } catch (const Error& e) {
        mine = e.what();
      }
    });
    EXPECT_EQ(said[0], said[1]);
    return said[0];
  }

  ScratchFolder folder_;
  const std::vector<std::string> files_{"rank-00000-of-00002.safetensors", "rank-00001-of-00002.safetensors",
                                        "index.json"};
};

TEST_F(Damaged, IsNamed_WhereverABitOfAnyFileIsFlipped) {
  ASSERT_EQ(load(), "");
  for (const std::string& name : files_) {
    const std::string whole = file_text(file(name)).value();
    constexpr std::size_t kEnd = 24;  // of the index: its checksum, bit by bit
    const std::size_t stride = std::max<std::size_t>(1, whole.size() / 50);
    for (std::size_t at = 0; at < whole.size(); at += at + kEnd < whole.size() ? stride : 1) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      write(file(name), bad);
      EXPECT_THAT(load(), HasSubstr(name)) << "bit of byte " << at << " of " << whole.size();
    }
    write(file(name), whole);
  }
  EXPECT_EQ(load(), "");
}

TEST_F(Damaged, IsNamed_WhereverAnyFileEnds) {
  for (const std::string& name : files_) {
    const std::string whole = file_text(file(name)).value();
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{63},
                                     whole.size() / 2, whole.size() - 1}) {
      write(file(name), whole.substr(0, length));
      EXPECT_THAT(load(), HasSubstr(name)) << "of " << whole.size() << " bytes the first " << length;
    }
    write(file(name), whole + "x");
    EXPECT_THAT(load(), HasSubstr(name)) << "a byte too many";
    write(file(name), whole);
  }
  EXPECT_EQ(load(), "");
}

TEST_F(Damaged, IsNamed_WhereAFileIsMissing) {
  for (const std::string& name : files_) {
    const std::string whole = file_text(file(name)).value();
    std::filesystem::remove(file(name));
    EXPECT_THAT(load(), HasSubstr(name));
    write(file(name), whole);
  }
}

TEST_F(Damaged, NamesTheItemAndTheBytes) {
  const std::string name = file(files_[1]);
  std::string whole = file_text(name).value();
  whole.back() = static_cast<char>(whole.back() ^ 1);
  write(name, whole);
  EXPECT_THAT(load(), AllOf(HasSubstr(name), HasSubstr("rank 0 on"), ::testing::ContainsRegex("'(first|second)' \\("),
                            HasSubstr("expected")));
}

TEST_F(Damaged, IndexIsRefused_WhereItCannotBe) {
  const std::string text = file_text(file("index.json")).value();
  ASSERT_NO_THROW(static_cast<void>(index_from_json(text, "index.json")));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = text;
    const std::size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) bad.replace(at, from.size(), to);
    try {
      static_cast<void>(index_from_json(bad, "index.json"));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"),
              AllOf(HasSubstr("expected sinew-checkpoint, version 1"), HasSubstr("found sinew-checkpoint, version 2")));
  EXPECT_THAT(with("\"last\": 13", "\"last\": 12"), HasSubstr("parts: expected 30 elements"));
  EXPECT_THAT(with("\"first\": 13", "\"first\": 12"), HasSubstr("72 bytes within the file's 68"));
  EXPECT_THAT(with("\"first\": 13,\n     \"last\": 30", "\"first\": 12,\n     \"last\": 29"),
              HasSubstr("[12, 13) are in parts of rank 0 and of rank 1"));
  EXPECT_THAT(with("\"last\": 30", "\"last\": 31"), HasSubstr("within the item"));
  EXPECT_THAT(with("rank-00000", "../rank-00000"), HasSubstr("same folder"));
  EXPECT_THAT(with("\"offset\": 0", "\"offset\": 999999"), HasSubstr("within the file's"));
  EXPECT_THAT(with("\"file\": 1", "\"file\": 2"), HasSubstr("number of a file"));
  EXPECT_THAT(with("\"bf16\"", "\"bf17\""), HasSubstr("element type"));
  EXPECT_THAT(with("\"step\": 1", "\"step\": 1.5"), HasSubstr("metadata.step: expected an integer"));
  EXPECT_THAT(with("\"second\"", "\"aaa\""), HasSubstr("ascending order"));
  const auto with_scale = [&](const std::string& members) {
    return with("\"step\": 1", "\"loss_scale\": " + members + ", \"step\": 1");
  };
  EXPECT_EQ(with_scale(R"({"scale": 2, "good_steps": 3, "skipped_steps": 4})"), "accepted");
  EXPECT_THAT(with_scale("2"), HasSubstr("metadata.loss_scale: expected an object"));
  EXPECT_THAT(with_scale(R"({"scale": null, "good_steps": 3, "skipped_steps": 4})"),
              HasSubstr("metadata.loss_scale.scale: expected a number"));
  EXPECT_THAT(with_scale(R"({"scale": 2, "good_steps": 3})"),
              HasSubstr("metadata.loss_scale.skipped_steps: expected to be there"));
  const auto with_sampler = [&](const std::string& members) {
    return with("\"step\": 1", "\"sampler\": {\"seed\": 7, \"samples\": 9, " + members + "}, \"step\": 1");
  };
  EXPECT_EQ(with_sampler(R"("shuffled": true, "epoch": 2, "position": 9)"), "accepted");
  EXPECT_THAT(with_sampler(R"("shuffled": 1, "epoch": 2, "position": 9)"),
              HasSubstr("metadata.sampler.shuffled: expected true or false"));
  EXPECT_THAT(with_sampler(R"("shuffled": true, "epoch": 2)"),
              HasSubstr("metadata.sampler.position: expected to be there"));
  EXPECT_THAT(with_sampler(R"("shuffled": true, "epoch": 2, "position": 10)"),
              HasSubstr("position 10, expected 0 to 9"));
}

TEST(Crc32, IsThatOfZlib) {
  const auto of = [](const std::string& s) { return crc32(std::as_bytes(std::span(s))); };
  EXPECT_EQ(of(""), 0U);
  EXPECT_EQ(of("123456789"), 0xCBF43926U);
  EXPECT_EQ(of("The quick brown fox jumps over the lazy dog"), 0x414FA339U);
}

}  // namespace
}  // namespace sinew::parallel
