// How an endpoint ends.
#include <algorithm>
#include <utility>

#include <sinew/core/log.hpp>
#include <sinew/transports/ofi/endpoint.hpp>
#include <sinew/transports/ofi/left_overs.hpp>

namespace sinew::ofi {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(500);

}  // namespace

OfiEndpoint::~OfiEndpoint() {
  if (end_.ok()) {
    end_messages({Code::Cancelled, "the endpoint was destroyed"});
    control({.kind = FrameKind::Bye});
  }
  flows_.for_each([&](Flow& f, std::uint32_t number) {
    flows_.erase(number);
    end_operation(f, end_);
    f.owner = nullptr;
    shared_.flows.stop(f, end_);
  });
  shared_.forget(*this);
}

void OfiEndpoint::close(Completion& quiet) {
  ++shared_.pending;
  quiet.make<Operation>();
  quiet_ = &quiet;
  const bool lost = !end_.ok();
  end_messages({Code::Cancelled, "the endpoint was closed"});
  if (!lost) control({.kind = FrameKind::Bye});
  stop_flows();
  look_for_quiet();
}

void OfiEndpoint::lose(const Status& why, bool at_once) {
  if (!end_.ok()) return;
  log::debug("ofi: {}", why.message());
  end_messages(why);
  lane_.drop(true, [](Completion&) {});
  if (at_once) {
    control({.kind = FrameKind::Bye});
    return stop_flows();
  }
  // What it sent before its last word may still be on its way.
  if (flows_.count() == 0) return;
  ending_ = Ending::Patient;
  patience_ = Clock::now() + kPatience;
  wait_on();
}

/// All but what the provider has.
void OfiEndpoint::end_messages(const Status& reason) {
  end_ = reason;
  lane_.drop(false, [&](Completion& c) { finish(c, reason); });
  announced_.for_each([&](Completion& c, std::uint32_t number) {
    announced_.erase(number);
    finish(c, reason);
  });
  early_.clear();
  reason.code() == Code::Cancelled ? matcher_.close(reason) : matcher_.fail(reason);
  if (!shared_.self.place.empty()) remove_left_overs();
}

void OfiEndpoint::stop_flows() {
  ending_ = Ending::Stopped;
  flows_.for_each([&](Flow& f, std::uint32_t) { shared_.flows.stop(f, end_); });
  patience_ = Clock::now() + kPatience;
  if (flows_.count() != 0) wait_on();
}

void OfiEndpoint::wait_on() {
  if (std::ranges::find(shared_.ending, this) == shared_.ending.end()) shared_.ending.push_back(this);
}

bool OfiEndpoint::pass_time(Clock::time_point now) {
  if (flows_.count() == 0) return true;
  if (now < patience_) return false;
  if (ending_ == Ending::Patient) {
    stop_flows();
    return flows_.count() == 0;
  }
  cut_off();
  return true;
}

void OfiEndpoint::cut_off() {
  const bool cut = shared_.rail.cut_off(lane_.ends().to);
  ending_ = Ending::Over;
  if (cut && !shared_.rail.is_shm()) lane_.cut_off();
  flows_.for_each([&](Flow& f, std::uint32_t number) {
    end_operation(f, end_);
    if (!cut) return;
    flows_.erase(number);
    f.owner = nullptr;
  });
  look_for_quiet();
}

void OfiEndpoint::look_for_quiet() {
  if (quiet_ != nullptr && flows_.count() == 0) finish(*std::exchange(quiet_, nullptr), {});
}

}  // namespace sinew::ofi
