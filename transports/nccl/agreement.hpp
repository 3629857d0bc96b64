#pragma once

#include <memory>
#include <string>

#include <sinew/core/deadline.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/transports/nccl/calls/abilities.hpp>
#include <sinew/transports/nccl/endings.hpp>
#include <sinew/transports/nccl/library/library.hpp>
#include <sinew/transports/nccl/split.hpp>

namespace sinew::nccl {

/// What the ranks of a group have found out together: the same on all of them, but for the communicator.
struct Agreement {
  std::string obstacle;               ///< why there is none, with the first rank that could not; empty: there is
  Abilities abilities;                ///< of all of them
  Comm comm = nullptr;                ///< being made: NCCL says when it is there
  std::shared_ptr<Birth> birth = {};  ///< of the communicator, where another one is split; null: `comm` is it
  std::string origin = "made by a unique id";
};

/// Makes a communicator among the group: two rounds of the exchange. The unique id is the first rank's; every rank
/// says in each round how far it came, so that all go on or none does.
/// `refusal`: why CUDA, as this NCCL needs it, could not begin on this rank before, which stays so; set where that
/// comes out now. Asking again would leave a thread and a descriptor of each unique id.
Agreement agree(const OffloadContext& context, const Library& library, Endings& endings, DeviceRuntime& runtime,
                int device, std::string& refusal);

/// NCCL's words for what went wrong. `comm`: may be null.
std::string words_of(const Api& api, Result result, Comm comm);

}  // namespace sinew::nccl
