#pragma once

namespace sinew::abuse {

/// Gives this process, and all that it starts, a network and a /dev/shm of their own, so that what others leave there
/// is not taken for a leak. Says on standard error why where it cannot.
void live_apart();

}  // namespace sinew::abuse
