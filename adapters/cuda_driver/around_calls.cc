#include "around_calls.h"

namespace plimsoll::cuda_driver {

void report_taken(const Request& request, const Taken& taken) noexcept {
  if (taken.address == 0 || taken.size_bytes == 0 || !begin_reporting()) return;
  // A pool may belong to a device other than the current one.
  const int current = current_device();
  const bool is_pooled = request.kind == Request::Kind::kPooled;
  const int ordinal = is_pooled ? device_of(taken.address, current) : current;
  Allocation allocation = describe(request.operation, request.place, ordinal, taken.size_bytes);
  allocation.is_pooled = is_pooled;
  if (allocation_book().add(taken.address, allocation)) report_alloc(taken.address, allocation);
}

}  // namespace plimsoll::cuda_driver
