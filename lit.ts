import { Dashboard, VariableModel, Panel, FieldConfigSource, DataSourceRef } from '@grafana/schema';
export const x: Dashboard = {
 "title": "NIMO for Slurm",
 "uid": "nimo-slurm",
 "schemaVersion": 39,
 "version": 2,
 "editable": true,
 "tags": [
  "slurm",
  "nimo"
 ],
 "time": {
  "from": "now-24h",
  "to": "now"
 },
 "refresh": "1m",
 "timezone": "browser",
 "templating": {
  "list": [
   {
    "name": "datasource",
    "type": "datasource",
    "query": "prometheus",
    "label": "Data source"
   },
   {
    "name": "cluster",
    "type": "query",
    "label": "Cluster",
    "datasource": {
     "type": "prometheus",
     "uid": "${datasource}"
    },
    "query": "label_values(nimo_up, cluster)",
    "refresh": 2,
    "includeAll": true,
    "allValue": ".*",
    "current": {
     "text": "All",
     "value": "$__all"
    }
   }
  ]
 },
 "panels": [
  {
   "id": 13,
   "type": "timeseries",
   "title": "Time saved by other counts",
   "description": "Node time and run time that changed jobs saved against what they asked for, and that observed jobs would have saved. Below zero: they cost more.",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 24,
    "x": 0,
    "y": 0
   },
   "fieldConfig": {
    "defaults": {
     "unit": "s",
     "custom": {
      "thresholdsStyle": {
       "mode": "line"
      }
     },
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "red",
        "value": null
       },
       {
        "color": "green",
        "value": 0
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_saved_seconds{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} {{jobs}} jobs, {{of}} time"
    }
   ]
  },
  {
   "id": 1,
   "type": "stat",
   "title": "nimod, store",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 0,
    "y": 8
   },
   "fieldConfig": {
    "defaults": {
     "unit": "short",
     "min": 0,
     "mappings": [
      {
       "type": "value",
       "options": {
        "0": {
         "text": "down"
        },
        "1": {
         "text": "up"
        }
       }
      }
     ],
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "red",
        "value": null
       },
       {
        "color": "green",
        "value": 1
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_up{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} nimod"
    },
    {
     "refId": "B",
     "expr": "nimo_store_up{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} store"
    }
   ],
   "description": "Green: nimod answers, the store can be read. Red: jobs pass unchanged.",
   "options": {
    "colorMode": "background",
    "graphMode": "none",
    "textMode": "value_and_name"
   }
  },
  {
   "id": 2,
   "type": "timeseries",
   "title": "Age of the cluster's view",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 12,
    "y": 8
   },
   "fieldConfig": {
    "defaults": {
     "unit": "s",
     "min": 0,
     "custom": {
      "thresholdsStyle": {
       "mode": "line"
      }
     },
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "green",
        "value": null
       },
       {
        "color": "orange",
        "value": 60
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_snapshot_age_seconds{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} snapshot"
    }
   ],
   "description": "Above the line nimod's view is too old and jobs pass unchanged."
  },
  {
   "id": 3,
   "type": "timeseries",
   "title": "Decisions by mode and action",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 0,
    "y": 16
   },
   "fieldConfig": {
    "defaults": {
     "unit": "ops",
     "min": 0
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "sum by (mode, action) (rate(nimo_decisions_total{cluster=~\"$cluster\"}[$__rate_interval]))",
     "legendFormat": "{{mode}} {{action}}"
    }
   ],
   "description": "Each submission is one decision."
  },
  {
   "id": 4,
   "type": "bargauge",
   "title": "Decisions by reason",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 12,
    "y": 16
   },
   "fieldConfig": {
    "defaults": {
     "unit": "short",
     "min": 0
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "sum by (reason) (increase(nimo_decisions_total{cluster=~\"$cluster\"}[$__range]))",
     "legendFormat": "{{reason}}"
    }
   ],
   "description": "Why jobs were changed or left as they were."
  },
  {
   "id": 5,
   "type": "timeseries",
   "title": "Time of answers",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 0,
    "y": 24
   },
   "fieldConfig": {
    "defaults": {
     "unit": "s",
     "min": 0,
     "custom": {
      "thresholdsStyle": {
       "mode": "line"
      }
     },
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "green",
        "value": null
       },
       {
        "color": "orange",
        "value": 0.02
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "histogram_quantile(0.5, sum by (le) (rate(nimo_answer_seconds_bucket{cluster=~\"$cluster\"}[$__rate_interval])))",
     "legendFormat": "p50"
    },
    {
     "refId": "B",
     "expr": "histogram_quantile(0.9, sum by (le) (rate(nimo_answer_seconds_bucket{cluster=~\"$cluster\"}[$__rate_interval])))",
     "legendFormat": "p90"
    },
    {
     "refId": "C",
     "expr": "histogram_quantile(0.99, sum by (le) (rate(nimo_answer_seconds_bucket{cluster=~\"$cluster\"}[$__rate_interval])))",
     "legendFormat": "p99"
    }
   ],
   "description": "Time in which nimod answered submissions. The hook waits 20 ms at most."
  },
  {
   "id": 6,
   "type": "timeseries",
   "title": "Requests",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 12,
    "y": 24
   },
   "fieldConfig": {
    "defaults": {
     "unit": "reqps",
     "min": 0
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "sum by (result) (rate(nimo_requests_total{cluster=~\"$cluster\"}[$__rate_interval]))",
     "legendFormat": "{{result}}"
    }
   ],
   "description": "Requests to nimod by result."
  },
  {
   "id": 7,
   "type": "timeseries",
   "title": "Prediction error (MAPE) and bias",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 0,
    "y": 32
   },
   "fieldConfig": {
    "defaults": {
     "unit": "percentunit",
     "min": 0,
     "custom": {
      "thresholdsStyle": {
       "mode": "line"
      }
     },
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "green",
        "value": null
       },
       {
        "color": "orange",
        "value": 1
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_prediction_error_ratio{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} MAPE"
    },
    {
     "refId": "B",
     "expr": "nimo_prediction_bias_ratio{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} actual over predicted"
    }
   ],
   "description": "Mean error of predictions, and the median of actual over predicted, which should be 1."
  },
  {
   "id": 8,
   "type": "timeseries",
   "title": "Runs inside their intervals",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 12,
    "y": 32
   },
   "fieldConfig": {
    "defaults": {
     "unit": "percentunit",
     "min": 0,
     "custom": {
      "thresholdsStyle": {
       "mode": "line"
      }
     },
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "green",
        "value": null
       },
       {
        "color": "orange",
        "value": 0.9
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_interval_coverage_ratio{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} {{nominal}}"
    }
   ],
   "description": "Each share should be at its nominal one, which is its name."
  },
  {
   "id": 9,
   "type": "timeseries",
   "title": "Applications",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 0,
    "y": 40
   },
   "fieldConfig": {
    "defaults": {
     "unit": "short",
     "min": 0
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_applications{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} {{verdict}}"
    },
    {
     "refId": "B",
     "expr": "nimo_applications_switched_off{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} switched off"
    }
   ],
   "description": "Applications in the store by verdict, and those switched off."
  },
  {
   "id": 10,
   "type": "timeseries",
   "title": "Deadlines",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 12,
    "y": 40
   },
   "fieldConfig": {
    "defaults": {
     "unit": "short",
     "min": 0
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_deadline_jobs{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} {{outcome}}"
    }
   ],
   "description": "Jobs of the last days with a deadline."
  },
  {
   "id": 11,
   "type": "timeseries",
   "title": "Since accounting was read, since the last fit",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 0,
    "y": 48
   },
   "fieldConfig": {
    "defaults": {
     "unit": "s",
     "min": 0,
     "custom": {
      "thresholdsStyle": {
       "mode": "line"
      }
     },
     "thresholds": {
      "mode": "absolute",
      "steps": [
       {
        "color": "green",
        "value": null
       },
       {
        "color": "orange",
        "value": 172800
       }
      ]
     }
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "time() - nimo_ingest_timestamp_seconds{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} {{source}}"
    },
    {
     "refId": "B",
     "expr": "time() - nimo_fit_timestamp_seconds{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} fit"
    }
   ],
   "description": "Ingest and fit run each hour; above the line they were missed twice."
  },
  {
   "id": 12,
   "type": "timeseries",
   "title": "Store",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"
   },
   "gridPos": {
    "h": 8,
    "w": 12,
    "x": 12,
    "y": 48
   },
   "fieldConfig": {
    "defaults": {
     "unit": "bytes",
     "min": 0
    },
    "overrides": []
   },
   "targets": [
    {
     "refId": "A",
     "expr": "nimo_store_size_bytes{cluster=~\"$cluster\"}",
     "legendFormat": "{{cluster}} size"
    }
   ],
   "description": "Size of the store's file."
  }
 ]
}
;
