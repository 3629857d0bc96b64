#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/run/output/line_merger.hpp>

namespace sinew::run {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Source kFirst{0, Stream::Output};
constexpr Source kSecond{1, Stream::Output};
constexpr Source kOwn{kOwnLines, Stream::Errors};

enum class Prefixes { No, Yes };

/// A merger whose events are written down.
struct Merged {
  explicit Merged(Prefixes prefixes)
      : lines(prefixes == Prefixes::Yes, inside_line,
              {.put = [this](std::string_view bytes) { text += bytes; },
               .hold =
                   [this](Source source, bool on) {
                     EXPECT_NE(held.contains(source), on) << "twice the same";
                     if (on) held.insert(source);
                     if (!on) held.erase(source);
                   },
               .wait = [this](bool on) { waits = on; }}) {}
  /// Takes what was put so far.
  std::string taken() { return std::exchange(text, {}); }

  std::string text;
  std::set<Source> held;
  bool waits = false;
  bool inside_line = false;
  LineMerger lines;
};

std::string long_beginning() { return std::string(LineMerger::kLongestKept, 'x'); }

TEST(LineMerger, KeepsLinesWhole_HoweverTheirPiecesCome) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, "a");
  m.lines.take(kSecond, "1\n2");
  m.lines.take(kFirst, "b\n\nc\nd");
  m.lines.take(kSecond, "\n");
  EXPECT_EQ(m.text, "[1] 1\n[0] ab\n[0] \n[0] c\n[1] 2\n");
  EXPECT_FALSE(m.inside_line);
  EXPECT_THAT(m.held, IsEmpty());
}

TEST(LineMerger, LetsALongLineOutAsItComes_AndOthersWait) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, long_beginning());
  EXPECT_EQ(m.taken(), "[0] " + long_beginning());
  m.lines.take(kSecond, "whole\n");
  EXPECT_EQ(m.taken(), "");
  EXPECT_THAT(m.held, ElementsAre(kSecond));
  EXPECT_TRUE(m.waits);
  m.lines.take(kFirst, "more");
  EXPECT_EQ(m.taken(), "more");
  m.lines.take(kFirst, " end\nnext\n");
  EXPECT_EQ(m.taken(), " end\n[1] whole\n[0] next\n");
  EXPECT_THAT(m.held, IsEmpty());
  EXPECT_FALSE(m.waits);
}

TEST(LineMerger, HoldsWhoeverPrintsMeanwhile_ThoughALineHasNotEnded) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, long_beginning());
  m.lines.take(kSecond, "not yet");
  EXPECT_THAT(m.held, ElementsAre(kSecond));
  EXPECT_TRUE(m.waits);
  m.taken();
  m.lines.review();
  EXPECT_EQ(m.taken(), "");
  EXPECT_THAT(m.held, IsEmpty()) << "it can end its line now";
  EXPECT_FALSE(m.waits);
  m.lines.take(kSecond, " but now\n");
  EXPECT_EQ(m.taken(), "\n[1] not yet but now\n");
}

TEST(LineMerger, GivesTheTurnToTheNextLongLine) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, long_beginning());
  m.lines.take(kSecond, long_beginning() + "2");
  m.lines.take({2, Stream::Output}, "third\n");
  m.taken();
  m.lines.take(kFirst, "\n");
  EXPECT_EQ(m.taken(), "\n[1] " + long_beginning() + "2");
  EXPECT_THAT(m.held, ElementsAre(Source(2, Stream::Output)));
  EXPECT_TRUE(m.waits);
  m.lines.take(kSecond, "\n");
  EXPECT_EQ(m.taken(), "\n[2] third\n");
}

TEST(LineMerger, CutsALineForWhichOthersWait_IfItHardlyGrows) {
  for (const Prefixes prefixes : {Prefixes::No, Prefixes::Yes}) {
    Merged m(prefixes);
    m.lines.take(kFirst, long_beginning());
    m.lines.take(kSecond, "waits\n");
    m.lines.take(kFirst, std::string(LineMerger::kLeastGrowth, 'y'));
    m.taken();
    m.lines.review();
    EXPECT_EQ(m.taken(), "") << "it grows";
    EXPECT_TRUE(m.waits) << "for another review";
    m.lines.take(kFirst, "z");
    m.lines.review();
    m.lines.take(kFirst, "rest\n");
    const bool with = prefixes == Prefixes::Yes;
    EXPECT_EQ(m.taken(), with ? "z\n[1] waits\n[0] rest\n" : "zwaits\nrest\n");
  }
}

TEST(LineMerger, CutsNoLineForWhichNobodyWaits) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, long_beginning());
  m.lines.review();
  m.lines.take(kFirst, "end\n");
  EXPECT_EQ(m.text, "[0] " + long_beginning() + "end\n");
}

TEST(LineMerger, CutsALineThatNeverEnds_OnceAnotherRankWaits) {
  Merged m(Prefixes::Yes);
  for (std::uint64_t bytes = 0; bytes <= LineMerger::kLongestLine; bytes += LineMerger::kLongestKept) {
    m.lines.take(kFirst, long_beginning());
    EXPECT_EQ(m.taken().find('\n'), std::string::npos);
  }
  m.lines.take(kSecond, "waits\n");
  EXPECT_EQ(m.taken(), "\n[1] waits\n");
  m.lines.take(kFirst, long_beginning());
  m.lines.take(kSecond, "again\n");
  for (std::uint64_t bytes = 0; bytes < LineMerger::kLongestLine; bytes += LineMerger::kLongestKept) {
    m.taken();
    m.lines.take(kFirst, long_beginning());
  }
  EXPECT_EQ(m.taken(), long_beginning() + "\n[1] again\n") << "though the other one is held, and brings nothing more";
}

TEST(LineMerger, CutsALine_WhenTooMuchIsKeptOfRanksThatAreNotHeld) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, long_beginning());
  m.lines.take(kSecond, "held\n");
  m.lines.hold_no_more();
  EXPECT_THAT(m.held, IsEmpty());
  m.taken();
  const std::string line = std::string(LineMerger::kLongestKept - 1, 'l') + "\n";
  for (std::size_t bytes = 0; bytes <= LineMerger::kMostKept; bytes += line.size()) m.lines.take(kSecond, line);
  EXPECT_TRUE(m.text.starts_with("\n[1] held\n[1] lll"));
  EXPECT_GT(m.text.size(), LineMerger::kMostKept);
  EXPECT_THAT(m.held, IsEmpty());
}

TEST(LineMerger, AddsNoNewlineToALastLine) {
  for (const Prefixes prefixes : {Prefixes::No, Prefixes::Yes}) {
    Merged m(prefixes);
    m.lines.take(kFirst, "a\ntail");
    m.lines.finish(kFirst);
    m.lines.finish_all();
    EXPECT_EQ(m.text, prefixes == Prefixes::Yes ? "[0] a\n[0] tail" : "a\ntail");
    EXPECT_TRUE(m.inside_line);
  }
}

TEST(LineMerger, SeparatesALastLineFromTheLinesOfOthers) {
  Merged prefixed(Prefixes::Yes);
  prefixed.lines.take(kFirst, "tail");
  prefixed.lines.finish(kFirst);
  EXPECT_EQ(prefixed.text, "[0] tail") << "at once: it may say why the rank has ended";
  prefixed.lines.take(kSecond, "b\n");
  EXPECT_EQ(prefixed.text, "[0] tail\n[1] b\n");

  Merged plain(Prefixes::No);
  plain.lines.take(kFirst, "tail");
  plain.lines.finish(kFirst);
  plain.lines.take(kSecond, "b\nc");
  plain.lines.finish(kSecond);
  plain.lines.finish_all();
  EXPECT_EQ(plain.text, "b\ntailc");
}

TEST(LineMerger, PutsItsOwnLinesOnLinesOfTheirOwn) {
  for (const Prefixes prefixes : {Prefixes::No, Prefixes::Yes}) {
    Merged m(prefixes);
    m.lines.take(kFirst, long_beginning());
    m.lines.finish(kFirst);
    m.taken();
    m.lines.take(kOwn, "sinew-run: rank 0 ended\n");
    EXPECT_EQ(m.taken(), "\nsinew-run: rank 0 ended\n");
    m.lines.take(kSecond, long_beginning());
    m.taken();
    m.lines.take(kOwn, "sinew-run: later\n");
    EXPECT_EQ(m.taken(), "") << "a long line is being printed";
    EXPECT_TRUE(m.waits);
    EXPECT_THAT(m.held, IsEmpty());
  }
}

TEST(LineMerger, LetsOutWhatWaited_WhenTheRankWithTheTurnEnds) {
  Merged m(Prefixes::Yes);
  m.lines.take(kFirst, long_beginning());
  m.lines.take(kSecond, "b\ntail");
  m.lines.finish(kSecond);
  m.taken();
  m.lines.finish(kFirst);
  EXPECT_EQ(m.taken(), "\n[1] b\n[1] tail");
}

struct Shape {
  Prefixes prefixes;
  unsigned seed;
};

/// Several ranks print lines of any length, cut into any pieces, those that are held excepted. Rank r prints letters of
/// its own, so that whose bytes are whose can be seen without prefixes.
void expect_whole_lines(const Shape& shape) {
  constexpr int kRanks = 4;
  std::mt19937 random(shape.seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::vector<std::string> prints(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    const auto letter = static_cast<char>('a' + r);
    for (int line = 0; line < 6; ++line) {
      prints[static_cast<std::size_t>(r)] += std::string(below(line % 3 == 0 ? 4 << 20 : 100) + 1, letter) + "\n";
    }
    prints[static_cast<std::size_t>(r)] += std::string(below(3), letter);
  }
  Merged m(shape.prefixes);
  std::vector<std::size_t> sent(kRanks);
  for (std::set<int> busy = {0, 1, 2, 3}; !busy.empty();) {
    const int r = *std::next(busy.begin(), static_cast<std::ptrdiff_t>(below(busy.size())));
    const Source source{r, Stream::Output};
    if (m.held.contains(source)) continue;
    std::size_t& at = sent[static_cast<std::size_t>(r)];
    const std::string& all = prints[static_cast<std::size_t>(r)];
    const std::string_view piece = std::string_view(all).substr(at, below(300000) + 1);
    if (piece.empty()) {
      m.lines.finish(source);
      busy.erase(r);
    } else {
      m.lines.take(source, piece);
      at += piece.size();
    }
  }
  m.lines.finish_all();
  for (int r = 0; r < kRanks; ++r) {
    const auto letter = static_cast<char>('a' + r);
    std::string found;
    for (std::size_t at = 0; at < m.text.size();) {
      const std::size_t end = std::min(m.text.find('\n', at), m.text.size() - 1) + 1;
      std::string_view line = std::string_view(m.text).substr(at, end - at);
      at = end;
      if (shape.prefixes == Prefixes::Yes && !line.starts_with(fmt::format("[{}] ", r))) continue;
      if (shape.prefixes == Prefixes::Yes) line.remove_prefix(4);
      if (shape.prefixes == Prefixes::No && line.find(letter) == std::string_view::npos) continue;
      std::ranges::copy_if(line, std::back_inserter(found), [&](char c) { return c == letter || c == '\n'; });
      if (line.ends_with('\n')) {
        EXPECT_EQ(line.find_first_not_of(letter), line.size() - 1) << "another rank's in it";
      }
    }
    std::string expected = prints[static_cast<std::size_t>(r)];
    if (found.ends_with('\n') && !expected.ends_with('\n')) expected += '\n';  // behind it came another rank's tail
    EXPECT_TRUE(found == expected) << "rank " << r << ": " << found.size() << " bytes, expected " << expected.size();
  }
}

TEST(LineMerger, KeepsEveryByteAndEveryLine_WhateverTheTurns) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    expect_whole_lines({Prefixes::Yes, seed});
    expect_whole_lines({Prefixes::No, seed});
  }
}

}  // namespace
}  // namespace sinew::run
