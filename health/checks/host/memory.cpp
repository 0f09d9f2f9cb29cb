#include "health/checks/host/host_checks.h"

#include <cmath>

#include "health/checks/host/facts.h"
#include "health/model/baseline.h"
#include "health/model/check_words.h"
#include "health/model/judged_check.h"

namespace muster {

namespace {

constexpr std::string_view meminfo = "/proc/meminfo";
constexpr std::string_view huge_mode = "/sys/kernel/mm/transparent_hugepage/enabled";

// The number behind a key, as it stands there: in kB, or a count of pages.
std::optional<std::int64_t> meminfo_number(const SourceFiles& files, std::string_view key) {
  const auto bytes = parse_meminfo(files.text(meminfo).value_or(""), key);
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

void judge_memory(JudgedCheck& judged, const CheckInput& input) {
  const HostProfile& host = input.profile.host;
  if (!host.mem_kb) return;
  const auto total = meminfo_number(input.files, "MemTotal");
  if (total.value_or(0) == 0) return judged.unreadable(meminfo, input.files.reading(meminfo));
  const auto wanted = static_cast<double>(*host.mem_kb);
  const double slack = wanted * host.mem_tolerance_pct / 100;
  judged.require(std::abs(static_cast<double>(*total) - wanted) <= slack, kb(*total),
                 kb(*host.mem_kb) + " +- " + kb(static_cast<std::int64_t>(std::llround(slack))));
}

void learn_memory(BaselineNode& node) {
  node.profile.host.mem_kb =
      node.read("host.mem_kb", meminfo, meminfo_number(node.files, "MemTotal"));
}

void judge_swap(JudgedCheck& judged, const CheckInput& input) {
  const auto wanted = input.profile.host.swap_kb;
  if (!wanted) return;
  const auto total = meminfo_number(input.files, "SwapTotal");
  if (!total) return judged.unreadable(meminfo, input.files.reading(meminfo));
  judged.require(*total == *wanted, kb(*total), kb(*wanted));
}

void learn_swap(BaselineNode& node) {
  node.profile.host.swap_kb =
      node.read("host.swap_kb", meminfo, meminfo_number(node.files, "SwapTotal"));
}

void judge_hugepages(JudgedCheck& judged, const CheckInput& input) {
  const HostProfile& host = input.profile.host;
  if (host.hugepages) judge_page_count(judged, input.files, *host.hugepages);
  if (host.transparent_hugepages) judge_page_mode(judged, input.files, *host.transparent_hugepages);
}

}  // namespace

std::span<const CheckSpec> memory_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "host.mem", .source = "/proc/meminfo MemTotal",
     .says = "the profile's mem_kb, within its tolerance", .severity = drain_then_rma,
     .phases = when("P"), .group = host, .reads = {meminfo},
     .is_asked = is_set<&HealthProfile::host, &HostProfile::mem_kb>,
     .judge = in_one_finding<judge_memory>, .learn = learn_memory},
    {.id = "host.swap", .source = "/proc/meminfo SwapTotal", .says = "the profile's swap_kb",
     .severity = drain, .fault = setup, .phases = when("P"), .group = host, .reads = {meminfo},
     .is_asked = is_set<&HealthProfile::host, &HostProfile::swap_kb>,
     .judge = in_one_finding<judge_swap>, .learn = learn_swap},
    {.id = "host.hugepages", .source = "/proc/meminfo; /sys/kernel/mm/transparent_hugepage/enabled",
     .says = "as the profile says", .severity = drain, .fault = setup, .phases = when("P"),
     .group = host, .reads = {meminfo, huge_mode},
     .is_asked =
         is_set<&HealthProfile::host, &HostProfile::hugepages, &HostProfile::transparent_hugepages>,
     .judge = in_one_finding<judge_hugepages>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
