#include <utility>

#include <sinew/parallel/step_graph/stream_waits.hpp>

namespace sinew::parallel {
namespace {

/// Waits for all of them. failed: gets the first error, if it has none yet.
void end_all(std::vector<Work>& exchanges, std::optional<Error>& failed) noexcept {
  for (Work& exchange : exchanges) {
    try {
      exchange.get();
    } catch (const Error& e) {
      if (!failed) failed = e;
    }
  }
  exchanges.clear();
}

}  // namespace

StreamWaits::~StreamWaits() { give_up_pass(); }

void StreamWaits::add(Work exchange) { present_.push_back(std::move(exchange)); }

void StreamWaits::end_pass() {
  end_all(before_, lost_);
  std::swap(before_, present_);
  if (!lost_) lost_ = std::exchange(present_failed_, {});
  require_sound();
}

void StreamWaits::end_failed_pass() noexcept {
  settle_all();
  if (!lost_) lost_ = std::move(present_failed_);
  present_failed_.reset();
}

void StreamWaits::give_up_pass() noexcept {
  settle_all();
  present_failed_.reset();
}

void StreamWaits::settle() {
  settle_all();
  require_sound();
}

void StreamWaits::settle_all() noexcept {
  end_all(before_, lost_);
  end_all(present_, present_failed_);
}

void StreamWaits::require_sound() const {
  if (lost_) throw *lost_;
  if (present_failed_) throw *present_failed_;
}

}  // namespace sinew::parallel
