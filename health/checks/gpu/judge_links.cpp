#include <algorithm>
#include <cmath>

#include "health/checks/gpu/gpu_check.h"
#include "health/model/check_words.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Links train for minutes after a boot: a poll before that has flagged most of a healthy cluster.
constexpr std::chrono::seconds gpu_links_settle{300};
constexpr int lanes_usual = 16;
constexpr int link_is_up = 1;
constexpr int links_most = 72;  // more than any GPU has

// A failure soon after the boot says nothing yet.
HealthFinding once_settled(const GpuCheck& check, HealthFinding finding) {
  const auto uptime = uptime_of(check.gpu().situation.files);
  if (finding.status != CheckStatus::fail || !uptime || *uptime >= gpu_links_settle) return finding;
  return check.unknown("booted " + std::to_string(uptime->count()) +
                       " s ago, links settle within " + std::to_string(gpu_links_settle.count()) +
                       " s");
}

GpuOutcome judge_active(GpuCheck& check) {
  const auto wanted = check.profile().nvlinks;
  if (!wanted) return std::nullopt;
  int active = 0;
  int read = 0;
  std::string down;
  for (int link = 0; link < *wanted; ++link) {
    const auto state = check.number({"link." + std::to_string(link) + ".state"});
    if (!state) continue;
    ++read;
    if (*state == link_is_up)
      ++active;
    else
      down += (down.empty() ? "; down: " : ", ") + std::to_string(link);
  }
  const auto told = check.number({"field.91"});
  // Links that the GPU does not have are as bad as links that are down.
  const bool is_short = told && *told < *wanted;
  if (read < *wanted && !is_short) return check.unread();
  return once_settled(check, check.judged(active == *wanted, std::to_string(active) + down,
                                          std::to_string(*wanted)));
}

GpuOutcome judge_speed(GpuCheck& check) {
  const auto wanted = check.profile().nvlink_mb_per_s;
  if (!wanted) return std::nullopt;
  const auto count = check.number({"field.91"});
  const int named = check.profile().nvlinks.value_or(0);
  const auto links = std::min<std::int64_t>(named > 0 ? named : count.value_or(1), links_most);
  for (int link = 0; link < links; ++link) {
    // Older drivers tell one speed for all links.
    const auto speed = check.number({"field.164." + std::to_string(link), "field.90"});
    if (!speed) return check.unread();
    if (*speed == *wanted) continue;
    return once_settled(check,
                        check.failed(std::to_string(*speed) + " on link " + std::to_string(link),
                                     std::to_string(*wanted)));
  }
  return check.passed(std::to_string(*wanted), std::to_string(*wanted));
}

// A counter of the fourth generation and before: told in total, by link as a field, or by link.
std::optional<std::int64_t> link_errors(GpuCheck& check, std::string_view total,
                                        std::string_view field, std::string_view name) {
  if (const auto grown = check.growth({total})) return grown;
  if (const auto grown = check.growth_of_links(field, "")) return grown;
  return check.growth_of_links("link.", "." + std::string(name));
}

GpuOutcome judge_errors_4(GpuCheck& check) {
  const auto flit = link_errors(check, "field.38", "field.163.", "crc_flit");
  const auto data = link_errors(check, "field.45", "-", "crc_data");
  const auto replay = link_errors(check, "field.52", "field.161.", "replay");
  const auto recovery = link_errors(check, "field.59", "field.162.", "recovery");
  if (!flit && !data && !replay && !recovery) return check.unread();
  const auto crc = static_cast<double>(flit.value_or(0) + data.value_or(0));
  const std::int64_t rest = replay.value_or(0) + recovery.value_or(0);
  const double crc_max = check.limit("crc_max_per_s");
  const std::string value = "CRC " + std::to_string(static_cast<std::int64_t>(crc)) + ", replay " +
                            std::to_string(replay.value_or(0)) + ", recovery " +
                            std::to_string(recovery.value_or(0)) + " in " +
                            std::to_string(static_cast<std::int64_t>(check.seconds())) + " s";
  const std::string expected =
      "0, CRC < " + std::to_string(static_cast<std::int64_t>(crc_max)) + "/s";
  if (crc / check.seconds() >= crc_max)
    return check.failed(value, expected, {Remedy::drain, {}, false});
  return check.judged(crc == 0 && rest == 0, value, expected);
}

// Counts of the fifth generation. The error rates (220, 222) have no public limit.
GpuOutcome judge_errors_5(GpuCheck& check) {
  constexpr const char* fields[] = {"208", "215", "295"};
  std::optional<std::int64_t> sum;
  for (const std::string field : fields) {
    auto grown = check.growth_of_links("field." + field + ".", "");
    if (!grown) grown = check.growth({"field." + field});
    if (grown) sum = sum.value_or(0) + *grown;
  }
  if (!sum) return check.unread();
  return check.judged(*sum == 0, std::to_string(*sum), "0");
}

// Each two bits of the mask: 0 not supported, 1 it is so, 2 it is not. Then four bits: 1 is right.
bool is_fabric_mask_healthy(std::int64_t mask) {
  constexpr int flags = 4;  // degraded bandwidth, route recovery, route unhealthy, access timeout
  for (int flag = 0; flag < flags; ++flag) {
    if ((mask >> 2 * flag & 3) == 1) return false;
  }
  return (mask >> 2 * flags & 15) <= 1;
}

GpuOutcome judge_fabric(GpuCheck& check) {
  constexpr std::int64_t not_supported = 0;
  constexpr std::int64_t completed = 3;
  constexpr std::int64_t healthy = 1;
  const auto state = check.number({"fabric.state"});
  if (!state) return check.unread();
  if (*state == not_supported)
    return check.is_required() ? GpuOutcome(check.unknown("the GPU has no fabric")) : std::nullopt;
  const auto status = check.number({"fabric.status"});
  if (!status) return check.unread();
  const std::int64_t summary = check.number({"fabric.summary"}).value_or(not_supported);
  const std::int64_t mask = check.number({"fabric.mask"}).value_or(0);
  const bool is_healthy =
      summary == not_supported ? is_fabric_mask_healthy(mask) : summary == healthy;
  const std::string value = "state " + std::to_string(*state) + ", status " +
                            std::to_string(*status) + ", summary " + std::to_string(summary) +
                            ", mask " + std::to_string(mask);
  return once_settled(check, check.judged(*state == completed && *status == 0 && is_healthy, value,
                                          "state 3, status 0, summary 1"));
}

// The width that the link has, from the kernel, else from the driver.
std::optional<std::int64_t> pcie_width(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  const std::string path = pci_file(gpu.pci_address, "current_link_width");
  if (const auto width = gpu.situation.files.number(path)) return width;
  return check.number({"pcie.width"});
}

// The generation now says nothing: idle links go down. What both ends can do does not change.
GpuOutcome judge_pcie_link(GpuCheck& check) {
  const GpuProfile& profile = check.profile();
  if (!profile.pcie_width && !profile.pcie_gen) return std::nullopt;
  const auto width = profile.pcie_width ? pcie_width(check) : std::optional<std::int64_t>(0);
  const auto gen =
      profile.pcie_gen ? check.number({"pcie.max_gen"}) : std::optional<std::int64_t>(0);
  if (!width || !gen) return check.unread();
  const auto describe = [&profile](std::int64_t lanes, std::int64_t generation) {
    std::string text = profile.pcie_width ? "x" + std::to_string(lanes) : "";
    if (!profile.pcie_gen) return text;
    return text + (text.empty() ? "gen " : " gen ") + std::to_string(generation);
  };
  const int lanes_wanted = profile.pcie_width.value_or(0);
  const int gen_wanted = profile.pcie_gen.value_or(0);
  return check.judged(*width == lanes_wanted && *gen == gen_wanted, describe(*width, *gen),
                      describe(lanes_wanted, gen_wanted));
}

GpuOutcome judge_pcie_replay(GpuCheck& check) {
  // Replays a minute and lane that a good link may have, by generation.
  constexpr double per_lane[] = {0.15, 0.3, 0.48, 0.96, 1.92, 3.84};
  const auto grown = check.growth({"field.94", "pcie.replay"});
  if (!grown) return check.unread();
  const auto& named = check.profile().pcie_gen;
  const auto gen = named ? std::optional<std::int64_t>(*named) : check.number({"pcie.max_gen"});
  if (!gen) return check.unread();
  if (*gen < 1 || *gen > static_cast<std::int64_t>(std::size(per_lane)))
    return check.unknown("no limit for PCIe generation " + std::to_string(*gen));
  const auto lanes = check.number({"pcie.max_width"});
  const double most =
      std::ceil(per_lane[*gen - 1] * static_cast<double>(lanes.value_or(lanes_usual)));
  const double a_minute = static_cast<double>(*grown) / std::max(check.seconds() / 60, 1.0);
  HealthFinding finding = check.judged(a_minute <= most, std::to_string(std::lround(a_minute)),
                                       "<= " + std::to_string(std::lround(most)));
  finding.unit = "1/min";
  return finding;
}

// The line "TOTAL_ERR_FATAL 0", last in each of the files.
std::optional<std::int64_t> total_errors(const SourceFiles& files, const std::string& path) {
  const auto text = files.text(path);
  if (!text) return std::nullopt;
  const std::size_t at = text->rfind("TOTAL_ERR_");
  const std::size_t space = at == text->npos ? at : text->find(' ', at);
  if (space == text->npos) return std::nullopt;
  return decimal_or_hex(trimmed(text->substr(space)));
}

GpuOutcome judge_pcie_aer(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  const GpuBefore* before = gpu.situation.before;
  if (before == nullptr || gpu.pci_address.empty()) return std::nullopt;
  constexpr const char* kinds[] = {"correctable", "nonfatal", "fatal"};
  std::int64_t grown[] = {0, 0, 0};
  for (int kind = 0; kind < 3; ++kind) {
    const std::string path =
        pci_file(gpu.pci_address, (std::string("aer_dev_") + kinds[kind]).c_str());
    const FileReading& reading = gpu.situation.files.reading(path);
    if (reading.is_missing) return std::nullopt;  // a kernel without it, a virtual machine
    const auto now = total_errors(gpu.situation.files, path);
    const auto then = total_errors(before->files, path);
    if (!now) return check.unknown(path + ": " + (reading.ok() ? "no total" : reading.error));
    if (!then) return std::nullopt;
    grown[kind] = std::max<std::int64_t>(*now - *then, 0);
  }
  const std::string value = "fatal " + std::to_string(grown[2]) + ", nonfatal " +
                            std::to_string(grown[1]) + ", correctable " + std::to_string(grown[0]);
  const std::string expected = "no growth";
  if (grown[2] > 0) return check.failed(value, expected);
  if (grown[1] > 0 || grown[0] > 0) return check.failed(value, expected, only_warn);
  return check.passed(value, expected);
}

int links_up(const GpuReadings& gpus, const std::string& device) {
  int up = 0;
  for (int link = 0; link < links_most; ++link)
    up += gpus.number(device + ".link." + std::to_string(link) + ".state") == link_is_up ? 1 : 0;
  return up;
}

// Of the GPU that has the fewest.
void learn_links(BaselineNode& node) {
  std::optional<int> fewest;
  for (const std::string& device : answering_gpus(node)) {
    const int up = links_up(*node.gpus, device);
    const auto told = node.gpus->number(device + ".field.91");
    if (told && *told > up) {
      node.leave_out("gpu.nvlinks", device + " has " + std::to_string(up) + " of " +
                                        std::to_string(*told) + " links up: is this node healthy?");
    }
    if (fewest && *fewest != up) {
      node.leave_out("gpu.nvlinks", device + " has " + std::to_string(up) + " links up, others " +
                                        std::to_string(*fewest) + ": the fewest count");
    }
    fewest = std::min(fewest.value_or(up), up);
  }
  node.profile.gpu.nvlinks = fewest;
  if (fewest.value_or(0) > 0) node.profile.required.emplace_back("gpu.nvlink_active");
}

void learn_link_speed(BaselineNode& node) {
  const int links = node.profile.gpu.nvlinks.value_or(0);
  if (links == 0) return;
  std::optional<std::int64_t> slowest;
  for (const std::string& device : answering_gpus(node)) {
    for (int link = 0; link < links; ++link) {
      auto speed = node.gpus->number(device + ".field.164." + std::to_string(link));
      if (!speed) speed = node.gpus->number(device + ".field.90");
      if (speed && *speed > 0) slowest = std::min(slowest.value_or(*speed), *speed);
    }
  }
  if (!slowest || *slowest > 10'000'000)
    return node.leave_out("gpu.nvlink_mb_per_s", "no GPU reports the speed of its links");
  node.profile.gpu.nvlink_mb_per_s = static_cast<int>(*slowest);
}

void learn_pcie(BaselineNode& node) {
  node.profile.gpu.pcie_gen = same_number(node, "pcie.max_gen", "gpu.pcie_gen");
  node.profile.gpu.pcie_width = same_number(node, "pcie.width", "gpu.pcie_width");
}

}  // namespace

std::span<const CheckSpec> gpu_link_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.nvlink_active", .source = "NvLinkState",
     .says = "all up, as many as the profile says", .severity = reset_then_rma,
     .phases = when("PTE"), .cost = 1ms, .is_of_link = true, .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::nvlinks>,
     .judge = on_each_gpu<judge_active>, .learn = learn_links},
    {.id = "gpu.nvlink_speed", .source = "fields 164, 90",
     .says = "the profile's", .severity = drain, .phases = when("P"), .cost = 1ms,
     .is_of_link = true, .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::nvlink_mb_per_s>,
     .judge = on_each_gpu<judge_speed>, .learn = learn_link_speed},
    {.id = "gpu.nvlink_err4", .source = "fields 38, 45, 52, 59, 161-163, NvLinkErrorCounter",
     .says = "no growth, CRC < 100/s", .severity = warn_then_drain, .believe = delta,
     .phases = when("TE"), .cost = 1ms, .group = gpu, .limits = {{"crc_max_per_s", "1/s", 100}},
     .judge = on_each_gpu<judge_errors_4>},
    {.id = "gpu.nvlink_err5", .source = "fields 208, 215, 220, 222, 295", .says = "no growth",
     .severity = warn_then_drain, .believe = delta, .phases = when("T"), .cost = 1ms, .group = gpu,
     .judge = on_each_gpu<judge_errors_5>},
    {.id = "gpu.fabric", .source = "GpuFabricInfoV", .says = "state 3, status 0, healthy",
     .severity = drain_then_reboot, .fault = setup, .phases = when("PT"), .cost = 1ms,
     .is_of_link = true, .group = gpu, .judge = on_each_gpu<judge_fabric>},
    {.id = "gpu.pcie_link", .source = "B/current_link_width, MaxPcieLinkGeneration",
     .says = "width and generation of the profile", .severity = drain_then_rma,
     .phases = when("PD"), .cost = 1ms, .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::pcie_width, &GpuProfile::pcie_gen>,
     .judge = on_each_gpu<judge_pcie_link>, .learn = learn_pcie},
    {.id = "gpu.pcie_replay", .source = "field 94, PcieReplayCounter",
     .says = "<= ceil(k x lanes) a minute", .believe = delta, .phases = when("T"), .group = gpu,
     .judge = on_each_gpu<judge_pcie_replay>},
    {.id = "gpu.pcie_aer", .source = "B/aer_dev_*", .says = "no growth", .severity = drain,
     .believe = delta, .phases = when("TE"), .group = gpu, .judge = on_each_gpu<judge_pcie_aer>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
