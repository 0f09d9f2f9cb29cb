#include <algorithm>

#include "health/checks/gpu/gpu_check.h"
#include "health/model/check_words.h"

namespace muster {

namespace {

// Rows that the InfoROM can hold as remapped.
constexpr std::int64_t remapped_rows_max = 512;

std::string whole(double number) {
  return std::to_string(static_cast<std::int64_t>(number));
}

GpuOutcome judge_ecc_mode(GpuCheck& check) {
  const auto wanted = check.profile().ecc;
  if (!wanted) return std::nullopt;
  const auto current = check.number({"ecc.current", "field.1"});
  const auto pending = check.number({"ecc.pending", "field.2"});
  if (!current || !pending) return check.unread();
  const std::int64_t expected = *wanted ? 1 : 0;
  return check.judged(*current == expected && *pending == expected,
                      std::to_string(*current) + ", pending " + std::to_string(*pending),
                      std::to_string(expected));
}

void learn_ecc_mode(BaselineNode& node) {
  node.profile.gpu.ecc = same_flag(node, "ecc.current", "gpu.ecc");
}

GpuOutcome judge_double_bits(GpuCheck& check) {
  const auto since_load = check.growth({"field.4", "ecc.unc.volatile"});
  const auto since_made = check.growth({"field.6", "ecc.unc.aggregate"});
  if (!since_load && !since_made) return check.unread();
  const std::int64_t grown = std::max(since_load.value_or(0), since_made.value_or(0));
  return check.judged(grown == 0, std::to_string(grown), "0");
}

GpuOutcome judge_corrected(GpuCheck& check) {
  const auto dram = check.number({"ecc.dram.cor.aggregate", "ecc.dram.cor.volatile"});
  const auto sram = check.number({"ecc.sram.cor.aggregate", "ecc.sram.cor.volatile"});
  if (!dram && !sram) return check.unread();
  const double dram_max = check.limit("dram_max");
  const double sram_max = check.limit("sram_max");
  const auto dram_count = static_cast<double>(dram.value_or(0));
  const auto sram_count = static_cast<double>(sram.value_or(0));
  return check.judged(dram_count <= dram_max && sram_count <= sram_max,
                      "DRAM " + whole(dram_count) + ", SRAM " + whole(sram_count),
                      "DRAM <= " + whole(dram_max) + ", SRAM <= " + whole(sram_max));
}

GpuOutcome judge_sram(GpuCheck& check) {
  const auto exceeded = check.number({"sram.exceeded"});
  if (!exceeded) return check.unread();
  if (*exceeded != 0)
    return check.failed("threshold exceeded", "not exceeded", {Remedy::rma, {}, false});
  const auto parity = check.growth({"sram.parity.aggregate"});
  const auto secded = check.growth({"sram.secded.aggregate"});
  const std::int64_t grown = parity.value_or(0) + secded.value_or(0);
  return check.judged(grown == 0, std::to_string(grown) + " more", "0 more, not exceeded");
}

GpuOutcome judge_zero(GpuCheck& check, std::initializer_list<std::string_view> keys) {
  const auto value = check.number(keys);
  if (!value) return check.unread();
  return check.judged(*value == 0, std::to_string(*value), "0");
}

GpuOutcome judge_remap_failure(GpuCheck& check) {
  return judge_zero(check, {"remap.failure", "field.145"});
}
GpuOutcome judge_remap_pending(GpuCheck& check) {
  return judge_zero(check, {"remap.pending", "field.144"});
}
GpuOutcome judge_unrepairable(GpuCheck& check) {
  return judge_zero(check, {"unrepairable"});
}

GpuOutcome judge_remap_count(GpuCheck& check) {
  const auto rows = check.number({"remap.unc", "field.143"});
  if (!rows) return check.unread();
  const std::string expected = "< " + std::to_string(remapped_rows_max) + ", banks have spares";
  if (*rows >= remapped_rows_max) return check.failed(std::to_string(*rows), expected);
  const auto none = check.number({"remap.banks.none"});
  const auto low = check.number({"remap.banks.low"});
  const std::string value = std::to_string(*rows) + ", banks without spares " +
                            std::to_string(none.value_or(0)) + ", with few " +
                            std::to_string(low.value_or(0));
  const double low_max = check.limit("low_banks_max");
  if (none.value_or(0) > 0 || static_cast<double>(low.value_or(0)) > low_max)
    return check.failed(value, expected, only_warn);
  return check.passed(value, expected);
}

GpuOutcome judge_retired_pages(GpuCheck& check) {
  const auto single = check.number({"retired.sbe", "field.29"});
  const auto twice = check.number({"retired.dbe", "field.30"});
  if (!single || !twice) return check.unread();
  const std::int64_t pages = *single + *twice;
  const double most = check.limit("pages_max");
  if (static_cast<double>(pages) > most)
    return check.failed(std::to_string(pages), "<= " + whole(most));
  const auto pending = check.number({"retired.pending", "field.31"});
  if (!pending) return check.unread();
  if (*pending != 0)
    return check.failed("pages wait for a reset", "none", {Remedy::reset, {}, false});
  return check.passed(std::to_string(pages), "<= " + whole(most));
}

GpuOutcome judge_repair_pending(GpuCheck& check) {
  const auto channel = check.number({"repair.channel"});
  const auto tpc = check.number({"repair.tpc"});
  if (!channel || !tpc) return check.unread();
  return check.judged(*channel == 0 && *tpc == 0,
                      "channel " + std::to_string(*channel) + ", TPC " + std::to_string(*tpc),
                      "channel 0, TPC 0");
}

}  // namespace

std::span<const CheckSpec> gpu_memory_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.ecc_mode", .source = "EccMode", .says = "current = pending = as the profile says",
     .severity = reboot, .fault = setup, .phases = when("P"), .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::ecc>,
     .judge = on_each_gpu<judge_ecc_mode>, .learn = learn_ecc_mode},
    {.id = "gpu.ecc_dbe", .source = "fields 4, 6, TotalEccErrors", .says = "no growth",
     .severity = stop_reset_then_rma, .believe = delta, .phases = when("PTEF"), .group = gpu,
     .is_certain = said_by_hardware, .judge = on_each_gpu<judge_double_bits>},
    // The limits are those from which a large provider's checks warn.
    {.id = "gpu.ecc_sbe", .source = "MemoryErrorCounter", .says = "DRAM <= 20000000, SRAM <= 10000",
     .phases = when("T"), .group = gpu,
     .limits = {{"dram_max", "errors", 20'000'000}, {"sram_max", "errors", 10'000}},
     .judge = on_each_gpu<judge_corrected>},
    {.id = "gpu.sram_unc", .source = "SramEccErrorStatus",
     .says = "threshold not exceeded, no growth", .severity = reset, .believe = delta,
     .phases = when("PTE"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_sram>},
    {.id = "gpu.remap_failure", .source = "RemappedRows, field 145", .says = "0", .severity = rma,
     .phases = when("PTE"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_remap_failure>},
    {.id = "gpu.remap_pending", .source = "RemappedRows, field 144", .says = "0", .severity = reset,
     .phases = when("PE"), .group = gpu, .judge = on_each_gpu<judge_remap_pending>},
    // Banks with few spares, of a few hundred to a few thousand; no public number.
    {.id = "gpu.remap_count", .source = "field 143, RowRemapperHistogram",
     .says = "< 512, banks have spares", .severity = rma, .phases = when("T"), .group = gpu,
     .limits = {{"low_banks_max", "banks", 16}}, .judge = on_each_gpu<judge_remap_count>},
    // The InfoROM can hold 64 as retired.
    {.id = "gpu.retired_pages", .source = "RetiredPages_v2, fields 29-31",
     .says = "<= 63, none pending", .severity = rma, .phases = when("P"), .cost = 1ms, .group = gpu,
     .limits = {{"pages_max", "pages", 63}}, .judge = on_each_gpu<judge_retired_pages>},
    {.id = "gpu.unrepairable", .source = "UnrepairableMemoryFlag_v1", .says = "0", .severity = rma,
     .phases = when("T"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_unrepairable>},
    {.id = "gpu.repair_pending", .source = "RepairStatus", .says = "none", .severity = reset,
     .phases = when("E"), .group = gpu, .judge = on_each_gpu<judge_repair_pending>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
