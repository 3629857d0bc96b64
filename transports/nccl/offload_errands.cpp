#include <new>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/nccl/offload.hpp>

// What NCCL is asked beside calls: to split the communicator, and to know memory in advance.
namespace sinew::nccl {

Availability NcclOffload::available() const {
  if (!obstacle_.empty()) return Availability::no(obstacle_);
  if (abilities_.features.registration) return Availability::yes();
  return Availability::no(lack_of("ncclCommRegister", kFirstWithRegistration, abilities_.version));
}

std::string NcclOffload::describe() const {
  const std::string version = version_text(abilities_.version);
  if (abilities_.features.windows) return fmt::format("a window of NCCL {}", version);
  return fmt::format("registered with NCCL {}: {}", version,
                     lack_of("ncclCommWindowRegister", kFirstWithWindows, abilities_.version));
}

void NcclOffload::attach(const Region& region, Completion& done) {
  begin(known_.attaching(region, abilities_.features.windows), done);
}

std::string NcclOffload::no_split() const {
  if (!obstacle_.empty()) return "it has no communicator of NCCL";
  if (!abilities_.features.split) return lack_of("ncclCommSplit", kOldest, abilities_.version);
  return end_.ok() ? std::string() : fmt::format("its communicator has ended: {}", end_.message());
}

void NcclOffload::split(std::shared_ptr<Birth> birth, int color, int key, Completion& done) {
  begin(std::make_shared<SplitErrand>(shared_.endings, std::move(birth), color, key), done);
}

void NcclOffload::begin(std::shared_ptr<Errand> errand, Completion& done) {
  begin(*new (pool_.take(sizeof(Launch))) Launch{.issuer = this, .done = &done, .errand = std::move(errand)});
}

/// Whatever it returns, NCCL may be at work on it yet: the communicator knows.
Issuer::Answer NcclOffload::run(Errand& errand) {
  const CurrentDevice current(shared_.order.runtime(), shared_.order.stream().device);
  const Answer answer = answer_to(errand.run(shared_.library.api, comm_), errand.function());
  if (answer == Answer::Failed) return answer;
  state_ = State::Busy;
  through_by_ = Deadline::after(shared_.timeout);
  return Answer::NotYet;
}

/// Of a part of another communicator: takes what that has made.
bool NcclOffload::born() noexcept {
  if (birth_->over && birth_->end.ok()) {
    comm_ = birth_->comm;
    birth_.reset();
    return true;
  }
  if (birth_->over) {
    end(birth_->end);
  } else if (made_by_.passed()) {
    give_up("ncclCommSplit");
  }
  return false;
}

void NcclOffload::forget_dropped() noexcept {
  const bool windows = abilities_.features.windows;
  const Result worst = known_.forget(comm_, windows, false);
  if (worst != Result::Success) answer_to(worst, windows ? "ncclCommWindowDeregister" : "ncclCommDeregister");
}

}  // namespace sinew::nccl
