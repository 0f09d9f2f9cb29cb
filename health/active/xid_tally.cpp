#include "health/active/xid_tally.h"

#include <algorithm>
#include <string_view>

#include "health/checks/kernel/xid.h"

namespace muster {

namespace {

constexpr std::size_t shown_most = 8;
constexpr std::size_t address_max = 32;

}  // namespace

bool XidTally::is_next(const KernelLine& line) {
  if (!line.sequence) return true;
  const std::uint64_t first = *line.sequence - std::min(line.continued, *line.sequence);
  if (sequence_) {
    if (*line.sequence <= *sequence_) return false;
    lost_lines_ += first > *sequence_ ? first - *sequence_ - 1 : 0;
  }
  sequence_ = line.sequence;
  return true;
}

void XidTally::skip(std::span<const KernelLine> lines) {
  for (const KernelLine& line : lines) is_next(line);
  lost_lines_ = 0;
}

void XidTally::add(std::span<const KernelLine> lines) {
  for (const KernelLine& line : lines) {
    // Programs may write what looks like one.
    if (!is_next(line) || !line.is_from_kernel) continue;
    std::string_view rest = line.text;
    while (!rest.empty()) {
      const std::string_view text = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), text.size() + 1));
      if (const auto xid = parse_xid(text)) {
        take("Xid " + std::to_string(xid->xid) + " of " + printable(xid->address, address_max));
      } else if (const auto sxid = parse_sxid(text)) {
        take("SXid " + std::to_string(sxid->sxid) + " of " + printable(sxid->address, address_max));
      }
    }
  }
}

void XidTally::take(const std::string& what) {
  ++count_;
  const bool is_known = std::ranges::find(first_, what) != first_.end();
  if (!is_known && first_.size() < shown_most) first_.push_back(what);
}

std::string XidTally::text() const {
  std::string text;
  for (const std::string& one : first_) text += (text.empty() ? "" : "; ") + one;
  return text;
}

}  // namespace muster
