#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gpt/text/text.hpp>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>

namespace gpt {
namespace {

/// A file of its own that goes with it.
class SomeFile {
 public:
  explicit SomeFile(const std::string& content) {
    const int made = mkstemp(path_.data());
    if (made < 0) throw std::runtime_error("no temporary file");
    close(made);
    std::ofstream(path_) << content;
  }
  ~SomeFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "sinew_text_XXXXXX").string();
};

std::string complaint(const auto& f) {
  try {
    f();
  } catch (const sinew::Error& e) {
    return e.what();
  }
  return "";
}

TEST(Text, GivesEachSequenceToWhoeverAsks) {
  std::string content;
  for (int i = 0; i < 1000; ++i) content += static_cast<char>(i * 7 + i / 256);
  const SomeFile file(content);
  const Text text(file.path());
  EXPECT_EQ(text.bytes(), 1000);
  const Text::Which which{.seed = 3, .step = 12, .context = 20};
  const auto all = text.sequences(which, 0, 6);
  ASSERT_EQ(all.size(), 6U * 21U);
  for (std::int64_t s = 0; s < 6; ++s) {
    const auto one = text.sequences(which, s, 1);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + s * 21)) << s;
    const std::string as_text(one.begin(), one.end());
    EXPECT_NE(content.find(as_text), std::string::npos) << "not of the text";
  }
  EXPECT_NE(all, text.sequences({.seed = 3, .step = 13, .context = 20}, 0, 6));
  EXPECT_NE(all, text.sequences({.seed = 4, .step = 12, .context = 20}, 0, 6));
}

TEST(Text, TakesAllOfATextThatIsJustLongEnough) {
  const SomeFile file("abcdefghi");
  const auto only = Text(file.path()).sequences({.context = 8}, 0, 1);
  EXPECT_EQ(std::string(only.begin(), only.end()), "abcdefghi");
}

TEST(Text, SaysWhatIsWrong) {
  EXPECT_NE(complaint([] { Text("/nonexistent/text"); }).find("cannot read '/nonexistent/text': No such file"),
            std::string::npos);
  EXPECT_NE(complaint([] { Text("/tmp"); }).find("cannot read '/tmp'"), std::string::npos);
  const SomeFile file("short");
  EXPECT_NE(complaint([&] {
              (void)Text(file.path()).sequences({.context = 8}, 0, 1);
            }).find("has 5 bytes, expected 9 at least"),
            std::string::npos);
}

}  // namespace
}  // namespace gpt
