#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include <support/log_guard.hpp>

// Linked into every test program by sinew_test(). The lines lie in memory shared with forked ranks, so that a warning
// of a child fails the test in the parent.
namespace sinew::test {
namespace {

enum class State : std::uint32_t { Empty, Written, Taken };

struct Line {
  std::atomic<State> state;
  log::Level level;
  std::array<char, 503> text;  // cut to fit, always terminated
};

constexpr std::uint32_t kMostLines = 4096;

struct Board {
  std::atomic<std::uint32_t> claimed;
  std::array<Line, kMostLines> lines;
};
static_assert(std::atomic<State>::is_always_lock_free);

Board* map_board() {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory);
}

Board* board() {
  static Board* const shared = map_board();
  return shared;
}

void write_line(log::Level level, std::string_view text) {
  if (level < log::Level::Warning) return;
  const std::uint32_t index = board()->claimed.fetch_add(1, std::memory_order_relaxed);
  if (index >= kMostLines) return;
  Line& line = board()->lines[index];
  line.level = level;
  const std::size_t length = std::min(text.size(), line.text.size() - 1);
  std::memcpy(line.text.data(), text.data(), length);
  line.text[length] = '\0';
  line.state.store(State::Written, std::memory_order_release);
}

/// Hands each written line to `wanted(level, text)`; those it accepts are gone.
template <class F>
void take(F&& wanted) {
  const std::uint32_t count = std::min(board()->claimed.load(std::memory_order_acquire), kMostLines);
  for (std::uint32_t i = 0; i < count; ++i) {
    Line& line = board()->lines[i];
    if (line.state.load(std::memory_order_acquire) != State::Written) continue;
    if (wanted(line.level, std::string_view(line.text.data())))
      line.state.store(State::Taken, std::memory_order_relaxed);
  }
}

void report_rest(const char* when) {
  take([&](log::Level level, std::string_view text) {
    ADD_FAILURE() << when << " logged a" << (level == log::Level::Error ? "n error" : " warning")
                  << " that no ExpectLog expects: " << text;
    return true;
  });
  if (board()->claimed.load(std::memory_order_relaxed) > kMostLines) {
    ADD_FAILURE() << "more than " << kMostLines << " warnings: the rest is lost";
  }
}

class Guard : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo&) override { log::set_sink(write_line); }
  void OnTestEnd(const ::testing::TestInfo&) override { report_rest("the test"); }
  void OnEnvironmentsTearDownStart(const ::testing::UnitTest&) override { report_rest("the end of the program"); }
};

[[maybe_unused]] const bool kInstalled = [] {
  if (board() == nullptr) std::abort();
  ::testing::UnitTest::GetInstance()->listeners().Append(new Guard);
  return true;
}();

}  // namespace

ExpectLog::ExpectLog(log::Level level, std::string part) : level_(level), part_(std::move(part)) {}

std::vector<std::string> ExpectLog::lines() {
  take([&](log::Level level, std::string_view text) {
    if (level != level_ || text.find(part_) == std::string_view::npos) return false;
    lines_.emplace_back(text);
    return true;
  });
  return lines_;
}

ExpectLog::~ExpectLog() {
  if (lines().empty()) ADD_FAILURE() << "expected a line in the log that contains: " << part_;
}

}  // namespace sinew::test
