#include "runtime/estimate/sku_catalogue.h"

#include <algorithm>
#include <ranges>

#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr double gb_in_gib = 1e9 / (1024.0 * 1024 * 1024);
// Of the CPU sizes, as the kernel counts them (/proc/meminfo): powers of two.
constexpr double mb_in_gib = 1.0 / 1024;
constexpr double kb_in_gib = 1.0 / (1024 * 1024);

// Two A100 machines with 8 x 200 Gb/s have 188 GB/s of all-reduce bus bandwidth at 8 GiB: 94 % of
// what the cards carry.
constexpr double share_of_cards = 0.94;

// Machines, memory, cards: Microsoft's pages of virtual machine sizes, which write GB and GiB as
// they are here; GPU memory "80 GB" is 80 GiB (nvidia-smi: 81920 MiB on an A100). Bandwidth inside
// a machine: the lowest value that Azure's node health checks let pass; without one, PCIe's H2D.
// Peaks: NVIDIA's and AMD's data sheets, dense. No floors are published for GB200 and GB300; theirs
// are those of the H100.
constexpr SkuFacts skus[] = {
    {"ND40rs_v2", 8, "V100", 32, 125, 110, 1, 100, 24, 672},
    {"ND96asr_v4", 8, "A100", 40, 312, 228, 8, 200, 24, 900},
    {"ND96amsr_A100_v4", 8, "A100", 80, 312, 228, 8, 200, 24, 1900 * gb_in_gib},
    {"ND96isr_H100_v5", 8, "H100", 80, 989.4, 460, 8, 400, 80, 1900 * gb_in_gib},
    {"ND96is_H100_v5", 8, "H100", 80, 989.4, 460, 0, 0, 80, 1900 * gb_in_gib},
    {"ND96isr_H200_v5", 8, "H200", 141, 989.4, 431, 8, 400, 80, 1850 * gb_in_gib},
    {"ND96isrf_H200_v5", 8, "H200", 141, 989.4, 432, 8, 400, 80, 1850 * gb_in_gib},
    {"ND96is_H200_v5", 8, "H200", 141, 989.4, 432, 0, 0, 80, 1850 * gb_in_gib},
    {"ND128isr_NDR_GB200_v6", 4, "GB200", 192, 2500, 460, 4, 400, 160, 900},
    {"ND128isr_GB300_v6", 4, "GB300", 288, 2500, 460, 4, 800, 160, 864},
    {"ND96isr_MI300X_v5", 8, "MI300X", 192, 1307.4, 314, 8, 400, 80, 1850 * gb_in_gib},
    {"NC4as_T4_v3", 1, "T4", 16, 65, 10, 0, 0, 8, 28},
    {"NC64as_T4_v3", 4, "T4", 16, 65, 10, 0, 0, 32, 440},
    {"NC24ads_A100_v4", 1, "A100", 80, 312, 21, 0, 0, 20, 220},
    {"NC48ads_A100_v4", 2, "A100", 80, 312, 193, 0, 0, 40, 440},
    {"NC96ads_A100_v4", 4, "A100", 80, 312, 25, 0, 0, 80, 880},
    {"NC40ads_H100_v5", 1, "H100 NVL", 94, 835.5, 48, 0, 0, 40, 320},
    {"NC80adis_H100_v5", 2, "H100 NVL", 94, 835.5, 208, 0, 0, 80, 640},
    {.name = "HC44rs",
     .infiniband_nics = 1,
     .infiniband_gbit_s = 100,
     .memory_gib = 354691 * mb_in_gib},
    {.name = "HB120rs_v2",
     .infiniband_nics = 1,
     .infiniband_gbit_s = 200,
     .memory_gib = 470543164 * kb_in_gib},
    {.name = "HB120rs_v3",
     .infiniband_nics = 1,
     .infiniband_gbit_s = 200,
     .memory_gib = 470543164 * kb_in_gib},
    {.name = "HB176rs_v4",
     .infiniband_nics = 1,
     .infiniband_gbit_s = 400,
     .memory_gib = 792561408 * kb_in_gib},
    {.name = "HX176rs",
     .infiniband_nics = 1,
     .infiniband_gbit_s = 400,
     .memory_gib = 1444918756 * kb_in_gib},
    {.name = "HBv5", .infiniband_nics = 4, .infiniband_gbit_s = 200, .memory_gib = 432 * gb_in_gib},
};

}  // namespace

std::optional<SkuFacts> find_sku(std::string_view name) {
  constexpr std::string_view vendor_prefix = "standard_";
  std::string wanted = lower_case(name);
  if (wanted.starts_with(vendor_prefix)) wanted.erase(0, vendor_prefix.size());
  const auto found =
      std::ranges::find(skus, wanted, [](const SkuFacts& sku) { return lower_case(sku.name); });
  return found == std::end(skus) ? std::nullopt : std::optional(*found);
}

std::string names_of_skus() {
  return joined(skus | std::views::transform(&SkuFacts::name));
}

// The rings of an all-reduce cross between two machines once each, over all cards together, so the
// cards of a machine carry what one rank sends.
double link_bytes_per_s(const SkuFacts& sku, bool between_machines) {
  const double inside = sku.gpu_link_gbyte_s * 1e9;
  if (!between_machines && inside > 0) return inside;
  const double cards =
      sku.infiniband_nics > 0 ? sku.infiniband_nics * sku.infiniband_gbit_s : sku.ethernet_gbit_s;
  const double outside = cards * share_of_cards * 1e9 / 8;
  return inside > 0 ? std::min(inside, outside) : outside;
}

}  // namespace muster
