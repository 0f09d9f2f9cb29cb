#include "health/checks/host/memory.h"

#include <cmath>

#include "health/checks/host/facts.h"
#include "health/model/judged_check.h"

namespace muster {

namespace {

constexpr std::string_view meminfo = "/proc/meminfo";
constexpr std::string_view huge_mode = "/sys/kernel/mm/transparent_hugepage/enabled";

// No size has more digits, and parse_meminfo cannot take them all.
constexpr int digits_max = 15;

bool has_huge_number(std::string_view text) {
  int digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > digits_max) return true;
  }
  return false;
}

// The number behind a key, as it stands there: in kB, or a count of pages.
std::optional<std::int64_t> meminfo_number(const SourceFiles& files, std::string_view key) {
  const FileReading& reading = files.reading(meminfo);
  if (!reading.ok() || has_huge_number(reading.text)) return std::nullopt;
  const auto bytes = parse_meminfo(reading.text, key);
  return bytes ? std::optional(*bytes / 1024) : std::nullopt;
}

std::string kb(std::int64_t number) {
  return std::to_string(number) + " kB";
}

// "always [madvise] never"
std::optional<std::string_view> chosen_word(std::string_view text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']', begin == text.npos ? 0 : begin);
  if (begin == text.npos || end == text.npos) return std::nullopt;
  return text.substr(begin + 1, end - begin - 1);
}

void judge_page_count(JudgedCheck& judged, const SourceFiles& files, std::int64_t wanted) {
  const auto pages = meminfo_number(files, "HugePages_Total");
  if (!pages) return judged.unreadable(meminfo, files.reading(meminfo));
  judged.require(*pages == wanted, std::to_string(*pages) + " pages",
                 std::to_string(wanted) + " pages");
}

void judge_page_mode(JudgedCheck& judged, const SourceFiles& files, const std::string& wanted) {
  const auto text = files.text(huge_mode);
  const auto mode = text ? chosen_word(*text) : std::nullopt;
  if (!mode) return judged.unreadable(huge_mode, files.reading(huge_mode));
  judged.require(*mode == wanted, "transparent " + std::string(*mode), "transparent " + wanted);
}

}  // namespace

std::optional<HealthFinding> judge_memory(const SourceFiles& files, const HealthProfile& profile) {
  if (!profile.host.mem_kb) return std::nullopt;
  JudgedCheck judged("host.mem");
  const auto total = meminfo_number(files, "MemTotal");
  if (total.value_or(0) == 0) {
    judged.unreadable(meminfo, files.reading(meminfo));
    return judged.finding();
  }
  const auto wanted = static_cast<double>(*profile.host.mem_kb);
  const double slack = wanted * profile.host.mem_tolerance_pct / 100;
  judged.require(
      std::abs(static_cast<double>(*total) - wanted) <= slack, kb(*total),
      kb(*profile.host.mem_kb) + " +- " + kb(static_cast<std::int64_t>(std::llround(slack))));
  return judged.finding();
}

std::optional<HealthFinding> judge_swap(const SourceFiles& files, const HealthProfile& profile) {
  if (!profile.host.swap_kb) return std::nullopt;
  JudgedCheck judged("host.swap");
  const auto total = meminfo_number(files, "SwapTotal");
  if (total) {
    judged.require(*total == *profile.host.swap_kb, kb(*total), kb(*profile.host.swap_kb));
  } else {
    judged.unreadable(meminfo, files.reading(meminfo));
  }
  return judged.finding();
}

std::optional<HealthFinding> judge_hugepages(const SourceFiles& files,
                                             const HealthProfile& profile) {
  JudgedCheck judged("host.hugepages");
  const HostProfile& host = profile.host;
  if (host.hugepages) judge_page_count(judged, files, *host.hugepages);
  if (host.transparent_hugepages) judge_page_mode(judged, files, *host.transparent_hugepages);
  return judged.finding();
}

}  // namespace muster
