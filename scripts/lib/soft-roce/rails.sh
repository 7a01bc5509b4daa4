# shellcheck shell=bash
# Soft-RoCE rails; sourced inside guests and by direct runs.
#
# Rail i is the device rxe<i> on the interface r<i>. In a machine alone, r<i> is one end of a veth
# pair whose other end p<i> only keeps the carrier up. Among several guests, it is the network card
# that joins them on that rail, and a further card, c0, carries everything that is not RDMA.
# Addresses: 198.18.<i>.<node + 1> (the range of RFC 2544, so that no real network is shadowed) and
# fd10:0:0:<i>::<node + 1>; on c0 198.19.0.<node + 1>.

# 4096 bytes of RDMA MTU and the largest RoCE v2 headers fit.
readonly RAIL_MTU=4200
# In the place of a rail's number in the address of a card.
readonly CONTROL_LINK=255

# card_address LINK NODE: the Ethernet address of the card that joins NODE to a rail, or to c0.
card_address() { printf '52:54:00:18:%02x:%02x' "$1" "$(($2 + 1))"; }

# take_card LINK NODE NAME: gives the card with that address its name; fails if there is none.
take_card() {
    local wanted interface
    wanted=$(card_address "$1" "$2")
    for interface in /sys/class/net/*; do
        if [[ -r $interface/address && $(<"$interface/address") == "$wanted" ]]; then
            ip link set "${interface##*/}" name "$3"
            return
        fi
    done
    return 1
}

# rails_up COUNT NODE: creates rails 0..COUNT on this machine.
rails_up() {
    local count=$1 rail
    for ((rail = 0; rail < count; rail++)); do
        if ! take_card "$rail" "$2" "r$rail"; then
            ip link add "r$rail" type veth peer name "p$rail" mtu "$RAIL_MTU"
            ip link set "p$rail" up
        fi
        rail_up "$rail" "$2"
    done
}

# rail_up RAIL NODE: the device of a rail whose interface is there.
rail_up() {
    local rail=$1 address=$(($2 + 1))
    ip link set "r$rail" mtu "$RAIL_MTU" txqueuelen 10000 allmulticast on
    # Each rail answers for its own addresses only, or a peer would learn the wrong card.
    sysctl_set "ipv4/conf/r$rail/arp_ignore" 1
    sysctl_set "ipv4/conf/r$rail/arp_announce" 2
    # A cut rail keeps its addresses, so that it has the same GIDs when it comes back.
    sysctl_set "ipv6/conf/r$rail/keep_addr_on_down" 1
    ip address add "198.18.$rail.$address/24" dev "r$rail"
    ip address add "fd10:0:0:$rail::$address/64" dev "r$rail" nodad
    ip link set "r$rail" up
    rdma link add "rxe$rail" type rxe netdev "r$rail"
}

# sysctl_set PATH VALUE: a network setting, where this kernel has it.
sysctl_set() {
    if [[ -w /proc/sys/net/$1 ]]; then echo "$2" >"/proc/sys/net/$1"; fi
}

# control_up NODE: the link that is no rail.
control_up() {
    take_card "$CONTROL_LINK" "$1" c0
    ip address add "198.19.0.$(($1 + 1))/24" dev c0
    ip link set c0 up
}

# rails_down COUNT: removes what rails_up created; missing parts are no error.
rails_down() {
    local count=$1 rail
    for ((rail = 0; rail < count; rail++)); do
        rdma link delete "rxe$rail" 2>/dev/null || true
        ip link delete "r$rail" 2>/dev/null || true
    done
}
