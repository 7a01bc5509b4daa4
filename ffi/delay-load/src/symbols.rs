//! Every function of the libraries that `ibverbs`, `rdma-sys`, `hwloc2` or this project refers to.
//!
//! One list per library, in alphabetical order. `nm -u` of the crates' rlibs tells what they refer to.

mod table;

/// libibverbs, which `ibverbs` and `rdma-sys` link.
pub mod verbs {
    super::table::delay_load! {
        "libibverbs.so.1" since "32 (rdma-core)";
        Required {
            _ibv_query_gid_table
            ibv_ack_async_event
            ibv_ack_cq_events
            ibv_alloc_pd
            ibv_attach_mcast
            ibv_close_device
            ibv_create_ah
            ibv_create_comp_channel
            ibv_create_cq
            ibv_create_qp
            ibv_create_srq
            ibv_dealloc_pd
            ibv_dereg_mr
            ibv_destroy_ah
            ibv_destroy_comp_channel
            ibv_destroy_cq
            ibv_destroy_qp
            ibv_destroy_srq
            ibv_detach_mcast
            ibv_event_type_str
            ibv_fork_init
            ibv_get_async_event
            ibv_get_cq_event
            ibv_free_device_list
            ibv_get_device_guid
            ibv_get_device_list
            ibv_get_device_name
            ibv_modify_qp
            ibv_open_device
            ibv_query_device
            ibv_query_gid
            ibv_query_port
            ibv_reg_mr
            ibv_wc_status_str
        }
        Optional {
            ibv_get_device_index
        }
    }
}

/// librdmacm, which `rdma-sys` links.
pub mod rdmacm {
    super::table::delay_load! {
        "librdmacm.so.1" since "1.2 (rdma-core)";
        Required {
            rdma_ack_cm_event
            rdma_bind_addr
            rdma_create_event_channel
            rdma_create_id
            rdma_destroy_event_channel
            rdma_destroy_id
            rdma_get_cm_event
            rdma_join_multicast
            rdma_leave_multicast
        }
        Optional {}
    }
}

/// libhwloc, which `hwloc2` links.
pub mod hwloc {
    super::table::delay_load! {
        "libhwloc.so.15" since "2.0";
        Required {
            hwloc_bitmap_alloc
            hwloc_bitmap_alloc_full
            hwloc_bitmap_clr
            hwloc_bitmap_clr_range
            hwloc_bitmap_dup
            hwloc_bitmap_first
            hwloc_bitmap_free
            hwloc_bitmap_isequal
            hwloc_bitmap_isfull
            hwloc_bitmap_isset
            hwloc_bitmap_iszero
            hwloc_bitmap_last
            hwloc_bitmap_list_asprintf
            hwloc_bitmap_next
            hwloc_bitmap_not
            hwloc_bitmap_set
            hwloc_bitmap_set_range
            hwloc_bitmap_singlify
            hwloc_bitmap_weight
            hwloc_bitmap_zero
            hwloc_compare_types
            hwloc_get_cpubind
            hwloc_get_depth_type
            hwloc_get_last_cpu_location
            hwloc_get_nbobjs_by_depth
            hwloc_get_obj_by_depth
            hwloc_get_proc_cpubind
            hwloc_get_proc_last_cpu_location
            hwloc_get_thread_cpubind
            hwloc_get_type_depth
            hwloc_obj_attr_snprintf
            hwloc_obj_type_snprintf
            hwloc_set_cpubind
            hwloc_set_proc_cpubind
            hwloc_set_thread_cpubind
            hwloc_topology_destroy
            hwloc_topology_get_depth
            hwloc_topology_get_flags
            hwloc_topology_get_support
            hwloc_topology_init
            hwloc_topology_load
            hwloc_topology_set_flags
        }
        Optional {}
    }
}
