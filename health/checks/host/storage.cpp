#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "health/checks/host/facts.h"
#include "health/checks/host/host_checks.h"
#include "health/model/baseline.h"
#include "health/model/check_words.h"
#include "health/read/files.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr std::string_view nvme_class = "/sys/class/nvme";
constexpr std::string_view shared_memory = "/dev/shm";
constexpr std::string_view shared_size = "statvfs:/dev/shm";
constexpr std::int64_t bytes_per_mib = 1 << 20;

struct Space {
  std::int64_t total = 0;
  std::int64_t available = 0;
  std::int64_t inodes = 0;
  std::int64_t inodes_available = 0;
};

std::optional<Space> space_of(const FileReading& reading) {
  if (!reading.ok()) return std::nullopt;
  const auto total = probe_number(reading.text, "bytes");
  const auto available = probe_number(reading.text, "bytes_available");
  if (!total || !available || *total <= 0 || *available < 0) return std::nullopt;
  // Some file systems without a limit say 0, others the greatest number there is.
  const auto inodes = probe_number(reading.text, "inodes");
  const auto inodes_available = probe_number(reading.text, "inodes_available");
  if (!inodes || !inodes_available) return Space{*total, *available, 0, 0};
  return Space{*total, *available, *inodes, *inodes_available};
}

double percent_of(std::int64_t part, std::int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent_text(double percent) {
  std::array<char, 400> text{};  // a double may have 308 digits
  const int size = std::snprintf(text.data(), text.size(), "%.1f %%", percent);
  return {text.data(), static_cast<std::size_t>(size)};
}

void judge_space(JudgedCheck& judged, const Space& space, const HostProfile& host) {
  const double free_pct = percent_of(space.available, space.total);
  const std::int64_t free_mb = space.available / bytes_per_mib;
  judged.require(
      free_pct >= host.free_pct && free_mb >= host.free_mb,
      percent_text(free_pct) + " (" + std::to_string(free_mb) + " MiB)",
      ">= " + percent_text(host.free_pct) + " and " + std::to_string(host.free_mb) + " MiB");
  if (space.inodes <= 0) return;
  const double inodes_pct = percent_of(space.inodes_available, space.inodes);
  judged.require(inodes_pct >= host.free_pct, percent_text(inodes_pct) + " of inodes",
                 ">= " + percent_text(host.free_pct) + " of inodes");
}

// Disks of other hosts have controllers in the same class.
bool is_local(const SourceFiles& files, const std::string& folder) {
  return files.text(folder + "/transport").value_or("pcie") == "pcie";
}

void judge_nvme_count(JudgedCheck& judged, const SourceFiles& files, int found, int wanted) {
  const FileReading& listing = files.reading(nvme_class);
  // A kernel without the driver has no such folder.
  if (wanted == 0 && listing.is_missing) return judged.pass("0");
  if (!listing.ok()) return judged.unreadable(nvme_class, listing);
  judged.require(found == wanted, std::to_string(found), std::to_string(wanted));
}

bool is_left_by_library(std::string_view name) {
  constexpr std::array<std::string_view, 3> patterns{"nccl-*", "torch_*", "sem.*"};
  return std::ranges::any_of(patterns,
                             [&](std::string_view pattern) { return fits_pattern(pattern, name); });
}

void judge_shared_size(JudgedCheck& judged, const SourceFiles& files, const HostProfile& host) {
  const auto space = space_of(files.reading(shared_size));
  if (!space) return judged.unreadable(shared_size, files.reading(shared_size));
  const auto wanted = static_cast<double>(*host.shm_kb);
  const auto size_kb = space->total / 1024;
  const double least_kb = wanted * (1 - host.mem_tolerance_pct / 100);
  judged.require(static_cast<double>(size_kb) >= least_kb, std::to_string(size_kb) + " kB",
                 ">= " + std::to_string(*host.shm_kb) + " kB");
}

void judge_disk(JudgedCheck& judged, const CheckInput& input, const std::string& disk) {
  const std::string path = "statvfs:" + disk;
  judged.set_source(path);
  const auto space = space_of(input.files.reading(path));
  if (!space) return judged.unreadable(path, input.files.reading(path));
  judge_space(judged, *space, input.profile.host);
}

std::vector<HealthFinding> judge_nvmes(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  int found = 0;
  for (const std::string& name : input.files.names_below(nvme_class)) {
    const std::string folder = std::string(nvme_class) + "/" + name;
    if (!is_local(input.files, folder)) continue;
    ++found;
    const auto state = input.files.text(folder + "/state");
    JudgedCheck judged(input.check(), name);
    judged.set_source(folder + "/state");
    if (state && !state->empty()) {
      judged.require(*state == "live", std::string(*state), "live");
    } else {
      judged.unreadable(folder + "/state", input.files.reading(folder + "/state"));
    }
    judged.add_to(findings);
  }
  if (input.profile.host.nvmes) {
    JudgedCheck judged(input.check());
    judge_nvme_count(judged, input.files, found, *input.profile.host.nvmes);
    judged.add_to(findings);
  }
  return findings;
}

// Files that libraries of a job left there, of users in `ended_uids`: those that run nothing on the
// node now.
std::vector<std::string> shared_memory_leftovers(const SourceFiles& files,
                                                 const std::set<std::int64_t>& ended_uids) {
  std::vector<std::string> leftovers;
  const std::string folder = "stat:" + std::string(shared_memory);
  for (const std::string& name : files.names_below(folder)) {
    const FileReading& reading = files.reading(folder + "/" + name);
    if (!reading.ok() || !is_left_by_library(name)) continue;
    const auto uid = probe_number(reading.text, "uid");
    if (uid && ended_uids.contains(*uid))
      leftovers.push_back(std::string(shared_memory) + "/" + name);
  }
  return leftovers;
}

void judge_shared_memory(JudgedCheck& judged, const CheckInput& input) {
  const auto& ended_uids = input.host->ended_uids;
  if (input.profile.host.shm_kb) judge_shared_size(judged, input.files, input.profile.host);
  const auto leftovers = shared_memory_leftovers(input.files, ended_uids);
  for (const std::string& path : leftovers) judged.add_evidence(path);
  if (!leftovers.empty())
    return judged.warn(std::to_string(leftovers.size()) + " left over", "none left over");
  if (ended_uids.empty()) return;
  const FileReading& listing = input.files.reading(shared_memory);
  listing.ok() ? judged.pass("none left over") : judged.unreadable(shared_memory, listing);
}

std::vector<std::string> disk_sources(const HealthProfile& profile) {
  std::vector<std::string> sources;
  for (const std::string& disk : profile.host.disks) sources.push_back("statvfs:" + disk);
  return sources;
}

// The count is of no device; each drive is judged wherever there is one.
bool counts_drives(const HealthProfile& profile, const HealthFinding& finding) {
  return !finding.device.empty() || profile.host.nvmes;
}

// What users left there only warns.
bool sizes_shared_memory(const HealthProfile& profile, const HealthFinding& finding) {
  return finding.severity.remedy == Remedy::warn || profile.host.shm_kb;
}

void learn_nvmes(BaselineNode& node) {
  const FileReading& listing = node.files.reading(nvme_class);
  if (!listing.ok() && !listing.is_missing)
    return node.leave_out("host.nvmes", std::string(nvme_class) + ": " + listing.error);
  int found = 0;
  for (const std::string& name : node.files.names_below(nvme_class))
    found += is_local(node.files, std::string(nvme_class) + "/" + name) ? 1 : 0;
  node.profile.host.nvmes = found;
}

void learn_shared_memory(BaselineNode& node) {
  const auto space = space_of(node.files.reading(shared_size));
  node.profile.host.shm_kb = node.read("host.shm_kb", shared_size,
                                       space ? std::optional(space->total / 1024) : std::nullopt);
}

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

std::span<const CheckSpec> storage_checks() {
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
    {.id = "host.disk", .source = "statvfs", .says = "10 % and 500 MB free, 10 % of inodes",
     .severity = drain, .phases = when("PE"), .cost = 2ms, .group = host,
     .reads_for = disk_sources, .is_asked = is_listed<&HostProfile::disks>,
     .judge = on_each_listed<&HostProfile::disks, judge_disk>},
    {.id = "host.nvme", .source = "/sys/class/nvme/*/state",
     .says = "all live, and as many as the profile says", .severity = drain_then_rma,
     .phases = when("PD"), .cost = 2ms, .group = host,
     .reads = {"/sys/class/nvme/*/transport", "/sys/class/nvme/*/state"},
     .is_asked = counts_drives, .judge = judge_nvmes, .learn = learn_nvmes},
    {.id = "host.shm", .source = "statvfs /dev/shm; its nccl-*, torch_*, sem.* by owner",
     .says = "the profile's size, nothing of users that have no job", .severity = drain,
     .fault = setup, .phases = when("PE"), .cost = 2ms, .group = host,
     .reads = {shared_size, "stat:/dev/shm/nccl-*", "stat:/dev/shm/torch_*", "stat:/dev/shm/sem.*"},
     .is_asked = sizes_shared_memory, .judge = in_one_finding<judge_shared_memory>,
     .learn = learn_shared_memory},
  };
  // clang-format on
  return all;
}

}  // namespace muster
