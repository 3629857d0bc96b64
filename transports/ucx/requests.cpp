#include <cstring>
#include <utility>

#include <sinew/transports/ucx/requests.hpp>

namespace sinew::ucx {

Request& Requests::take(Request::What what, RequestOwner* owner, Completion* completion) {
  if (free_ == nullptr) {
    free_ = &all_.emplace_back();
    free_->pool = this;
  }
  Request& r = *free_;
  free_ = std::exchange(r.after, nullptr);
  r.what = what;
  r.owner = owner;
  r.completion = completion;
  return r;
}

Requests::~Requests() {
  for (Request& r : all_) {
    if (r.block != nullptr) blocks_.give(r.block, r.bytes);
  }
}

void Requests::keep(Request& r, ConstBuffer payload) {
  r.bytes = payload.bytes;
  if (r.bytes > Request::kInline) r.block = static_cast<std::byte*>(blocks_.take(r.bytes));
  if (r.bytes != 0) std::memcpy(r.block != nullptr ? r.block : r.payload, payload.data, r.bytes);
}

void Requests::begin(Request& r) noexcept {
  if (r.owner == nullptr) return;
  r.after = r.owner->begun;
  if (r.after != nullptr) r.after->before = &r;
  r.owner->begun = &r;
}

void Requests::take_back(Request& r) noexcept {
  if (r.owner == nullptr) return;
  if (r.owner->begun == &r) r.owner->begun = r.after;
  if (r.before != nullptr) r.before->after = r.after;
  if (r.after != nullptr) r.after->before = r.before;
  r.before = r.after = nullptr;
}

void Requests::forget(Request& r) noexcept {
  take_back(r);
  r.owner = nullptr;
}

void Requests::returned(Request& r, ucs_status_ptr_t result) {
  if (UCS_PTR_IS_PTR(result)) {
    begin(r);
  } else {
    end(r, UCS_PTR_STATUS(result));
  }
}

void Requests::sent(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  end(*static_cast<Request*>(user_data), status);
}

void Requests::fetched(void* request, ucs_status_t status, std::size_t /*bytes*/, void* user_data) {
  sent(request, status, user_data);
}

void Requests::end(Request& r, ucs_status_t status) {
  RequestOwner* owner = r.owner;
  forget(r);
  if (owner != nullptr) owner->completed(r, status);
  if (r.block != nullptr) r.pool->blocks_.give(std::exchange(r.block, nullptr), r.bytes);
  r.after = std::exchange(r.pool->free_, &r);
}

}  // namespace sinew::ucx
